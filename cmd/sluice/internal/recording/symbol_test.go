package recording_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/cmd/sluice/internal/recording"
)

func TestSymbol(t *testing.T) {
	long := strings.Repeat("X", recording.MaxSymbolLen)
	tests := []struct{ name, frame, want string }{
		{"Binance", `{"stream":"btcusdt@trade","data":{"e":"trade","E":1,"s":"BTCUSDT","t":3}}`, "BTCUSDT"},
		{"Binance, stream only", `{"stream":"btcusdt@trade","data":{"e":"trade"}}`, "BTCUSDT"},
		{"Binance, symbol nested deeper too", `{"stream":"a@kline_1m","data":{"e":"kline","s":"A","k":{"s":"B"}}}`, "A"},
		{"Binance, all symbols", `{"stream":"!miniTicker@arr","data":[{"s":"A"},{"s":"B"}]}`, ""},
		{"Binance, a plain trade", `{"e":"trade","E":1,"s":"BTCUSDT"}`, "BTCUSDT"},
		{"Binance snapshot", `{"lastUpdateId":1,"bids":[["1","2"]],"asks":[]}`, ""},
		{"Binance delivery snapshot", `{"lastUpdateId":1,"symbol":"BTCUSD_PERP","pair":"BTCUSD"}`, "BTCUSD_PERP"},
		{"Binance answer", `{"result":null,"id":1}`, ""},
		{"Coinbase", `{"type":"l2update","product_id":"SKL-BTC","changes":[["sell","1","2"]]}`, "SKL-BTC"},
		{"Coinbase subscriptions", `{"type":"subscriptions","channels":[{"name":"level2","product_ids":["A-B"]}]}`, ""},
		{"Kraken", `[993,[["354.1","0.8","16.5","s","l",""]],"trade","XMR/USD"]`, "XMR/USD"},
		{"Kraken, two payloads", `[1920,{"a":[["0"]]},{"b":[["1"]],"c":"41"},"book-1000","SC/EUR"]`, "SC/EUR"},
		{"Kraken status", `{"channelID":1,"event":"subscriptionStatus","pair":"WAVES/EUR","status":"subscribed"}`, ""},
		{"Kraken heartbeat", `{"event":"heartbeat"}`, ""},
		{"Kraken-like, escaped", `[1,[],"trade","XBT\/USD"]`, "XBT/USD"},
		{"an array of three", `[1,"trade","A"]`, ""},
		{"an array with text first", `["1",[],"trade","A"]`, ""},
		{"an array without text before the last", `[1,[],2,"A"]`, ""},
		{"an array without text last", `[-1,[],"A",2]`, ""},
		{"Bitfinex heartbeat", `[17,"hb"]`, ""},
		{"Kraken Futures", `{"feed":"book","product_id":"PI_ETHUSD","side":"sell","seq":2}`, "PI_ETHUSD"},
		{"Kraken Futures, subscribed", `{"event":"subscribed","feed":"book","product_ids":["FI_ETHUSD_211231"]}`, ""},
		{"KuCoin by topic", `{"data":{"price":"1"},"subject":"trade.ticker","topic":"/market/ticker:SNX-BTC","type":"message"}`, "SNX-BTC"},
		{"KuCoin by data", `{"data":{"symbol":"ANKR-BTC"},"topic":"/market/level2:ANKR-BTC"}`, "ANKR-BTC"},
		{"KuCoin candles", `{"data":{"time":1},"topic":"/market/candles:EQZ-BTC_1min"}`, "EQZ-BTC"},
		{"KuCoin, several", `{"data":{"time":1},"topic":"/market/snapshot:A,B"}`, ""},
		{"KuCoin acknowledgement", `{"id":"1","type":"ack"}`, ""},
		{"BitMEX", `{"table":"quote","action":"insert","data":[{"timestamp":"t","symbol":"XBTUSD"},{"symbol":"XBTUSD"}]}`, "XBTUSD"},
		{"BitMEX, attributes first", `{"table":"trade","types":{"symbol":"symbol"},"data":[{"symbol":"XBTUSD"}]}`, "XBTUSD"},
		{"BitMEX, several", `{"table":"quote","data":[{"symbol":"A"},{"symbol":"B"}]}`, ""},
		{"BitMEX, no rows", `{"table":"quote","data":[]}`, ""},
		{"BitMEX subscribed", `{"success":true,"subscribe":"quote:A","request":{"op":"subscribe","args":["quote:A"]}}`, ""},
		{"Bitstamp book", `{"data":{"bids":[]},"channel":"diff_order_book_bateur","event":"data"}`, "BATEUR"},
		{"Bitstamp trade", `{"data":{"id":1},"channel":"live_trades_ethusd","event":"trade"}`, "ETHUSD"},
		{"Bitstamp subscribed", `{"event":"bts:subscription_succeeded","channel":"live_trades_ethusd","data":{}}`, ""},
		{"a channel without event", `{"channel":"news_sport"}`, ""},
		{"best member first", `{"s":"C","symbol":"B","product_id":"A","data":{"s":"D"}}`, "A"},
		{"empty member passed over", `{"product_id":"","symbol":"B"}`, "B"},
		{"members that are no text", `{"symbol":7,"s":null,"data":{"s":{"s":"A"}}}`, ""},
		{"lower case", `{"symbol":"btc-usd.é"}`, "BTC-USD.é"},
		{"escapes", `{"symbol":"\u0061\"b"}`, `A"B`},
		{"control character", `{"symbol":"A\u0000"}`, ""},
		{"not UTF-8", "{\"symbol\":\"A\xff\"}", ""},
		{"longest", `{"symbol":"` + long + `"}`, long},
		{"too long", `{"symbol":"` + long + `X"}`, ""},
		{"a number", `17`, ""},
		{"a text", `"BTCUSDT"`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := recording.Scan([]byte(tt.frame))
			if err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestManySymbols: symbols are correct beyond maxInterned.
func TestManySymbols(t *testing.T) {
	const n = 10_000
	var text strings.Builder
	for i := range 2 * n {
		fmt.Fprintf(&text, "%d {\"s\":\"s%d\"}\n", i, i%n)
	}
	frames, err := readAll(recording.NewReader(strings.NewReader(text.String()), "x", nil))
	if err != nil || len(frames) != 2*n {
		t.Fatalf("%d frames, error %v", len(frames), err)
	}
	for i, f := range frames {
		if want := fmt.Sprintf("S%d", i%n); f.Symbol != want {
			t.Fatalf("frame %d has symbol %q, want %q", i, f.Symbol, want)
		}
	}
}
