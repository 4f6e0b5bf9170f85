package auth_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push/auth"
	"github.com/sluice-push/sluice/push/auth/jwks"
)

// vectorKeys returns the keys of a set: secrets, which no published set may have, and what package jwks finds in the rest.
func vectorKeys(set []byte) (auth.Keys, error) {
	var entries struct {
		Keys []struct {
			Type      string `json:"kty"`
			Algorithm string `json:"alg"`
			K         string `json:"k"`
		} `json:"keys"`
	}
	if err := json.Unmarshal(set, &entries); err != nil {
		return nil, err
	}
	var sources []auth.Keys
	for _, e := range entries.Keys {
		if e.Type != "oct" || e.Algorithm != "" && !auth.IsSymmetric(e.Algorithm) {
			continue
		}
		secret, err := base64.RawURLEncoding.DecodeString(e.K)
		if err != nil {
			return nil, err
		}
		keys, err := auth.Secret(secret)
		if err != nil {
			return nil, err
		}
		sources = append(sources, keys)
	}
	if public, _, err := jwks.Parse(set); err == nil {
		sources = append(sources, published(public))
	}
	return auth.Join(sources...), nil
}

// published is the keys of a set.
type published []jwks.Key

// Find implements [auth.Keys], as [jwks.Client] does.
func (p published) Find(_ context.Context, algorithm, kid string) ([]any, error) {
	var keys []any
	for _, k := range p {
		if (kid == "" || kid == k.ID) && (k.Algorithm == "" || k.Algorithm == algorithm) {
			keys = append(keys, k.Public)
		}
	}
	return keys, nil
}

// What several of the standards' vectors have in common: parts of tokens, claims and a key.
const (
	joePart   = ".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ."
	frodoPart = ".SXTigJlzIGEgZGFuZ2Vyb3VzIGJ1c2luZXNzLCBGcm9kbywgZ29pbmcgb3V0IHlvdXIgZG9vci4gWW91IHN0ZXAgb250byB0aGUgcm9hZCwgYW5kIGlmIHlvdSBkb24ndCBrZWVwI" +
		"HlvdXIgZmVldCwgdGhlcmXigJlzIG5vIGtub3dpbmcgd2hlcmUgeW91IG1pZ2h0IGJlIHN3ZXB0IG9mZiB0by4."
	joeClaims   = "{\"iss\":\"joe\",\r\n \"exp\":1300819380,\r\n \"http://example.com/is_root\":true}"
	frodoClaims = "It’s a dangerous business, Frodo, going out your door. You step onto the road, and if you don't keep your feet, there’s no knowing where you might " +
		"be swept off to."
	bilboKey = `"kty":"RSA","kid":"bilbo.baggins@hobbiton.example","use":"sig","n":"n4EPtAOCc9AlkeQHPzHStgAbgs7bTZLwUBZdR8_KuKPEHLd4rHVTeT-O-XV2jRojdNhxJWTDvNd7nqQ0VEiZQH` +
		`z_AJmSCpMaJMRBSFKrKb2wqVwGU_NsYOYL-QtiWN2lbzcEe6XC0dApr5ydQLrHqkHHig3RBordaZ6Aj-oBHqFEHYpPe7Tpe-OfVfHd1E6cS6M1FZcD1NNLYD5lFHpPI9bTwJlsde3uhGqC0ZCuEHg8lhzwOHrtIQb` +
		`S0FVbb9k3-tVTU4fg_3L_vniUFAKwuCLqKnS2BYwdq_mzSnbLY7h_qixoR7jig3__kRhuaxwUkRz5iaiQkqgc5gHdrNP5zw","e":"AQAB"`
)

// standardVectors are the examples of the standards: a key, a token and its claims.
var standardVectors = []struct{ source, key, token, claims string }{
	{
		"RFC 7515 A.1", `"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"`,
		"eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9" + joePart + "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", joeClaims,
	},
	{
		"RFC 7515 A.2", `"kty":"RSA","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWv` +
			`G6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-` +
			`DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB"`,
		"eyJhbGciOiJSUzI1NiJ9" + joePart + "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKB" +
			"YNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QO" +
			"YEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw", joeClaims,
	},
	{
		"RFC 7515 A.3", `"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"`,
		"eyJhbGciOiJFUzI1NiJ9" + joePart + "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q", joeClaims,
	},
	{
		"RFC 7515 A.4", `"kty":"EC","crv":"P-521","x":"AekpBQ8ST8a8VcfVOTNl353vSrDCLLJXmPk06wTjxrrjcBpXp5EOnYG_NjFZ6OvLFV1jSfS9tsz4qUxcWceqwQGk",` +
			`"y":"ADSmRA43Z1DSNx_RvcLI87cdL07l6jQyyBXMoxVg_l2Th-x3S1WDhjDly79ajL4Kkd0AZMaZmh9ubmf63e3kyMj2"`,
		"eyJhbGciOiJFUzUxMiJ9.UGF5bG9hZA.AdwMgeerwtHoh-l192l60hp9wAHZFVJbLfD_UxMi70cwnZOYaRI1bKPWROc-mZZqwqT2SI-KGDKB34XO0aw_7XdtAG8GaSwFKdCAPZgoXD2YBJZCPEX3xKpR" +
			"wcdOO8KpEHwJjyqOgzDO7iKvU8vcnwNrmxYbSW9ERBXukOXolLzeO_Jn", "Payload",
	},
	{
		"RFC 8037 A.4", `"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"`,
		"eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
		"Example of Ed25519 signing",
	},
	{
		"RFC 7520 4.1", bilboKey, "eyJhbGciOiJSUzI1NiIsImtpZCI6ImJpbGJvLmJhZ2dpbnNAaG9iYml0b24uZXhhbXBsZSJ9" + frodoPart + "MRjdkly7_-oTPTS3AXP41iQIGKa80A0ZmTuV5MEaHoxnW2e5CZ5NlKtain" +
			"oFmKZopdHM1O2U4mwzJdQx996ivp83xuglII7PNDi84wnB-BDkoBwA78185hX-Es4JIwmDLJK3lfWRa-XtL0RnltuYv746iYTh_qHRD68BNt1uSNCrUCTJDt5aAE6x8wW1Kt9eRo4QPocSadnHXFxnt8Is9U" +
			"zpERV0ePPQdLuW3IS_de3xyIrDaLGdjluPxUAhb6L2aXic1U12podGU0KLUQSE_oI-ZnmKJ3F4uOZDnd6QZWJushZ41Axf_fcIe8u9ipH84ogoree7vjbU5y18kDquDg", frodoClaims,
	},
	{
		"RFC 7520 4.2", bilboKey, "eyJhbGciOiJQUzM4NCIsImtpZCI6ImJpbGJvLmJhZ2dpbnNAaG9iYml0b24uZXhhbXBsZSJ9" + frodoPart + "cu22eBqkYDKgIlTpzDXGvaFfz6WGoz7fUDcfT0kkOy42miAh2qyBzk1xEs" +
			"nk2IpN6-tPid6VrklHkqsGqDqHCdP6O8TTB5dDDItllVo6_1OLPpcbUrhiUSMxbbXUvdvWXzg-UD8biiReQFlfz28zGWVsdiNAUf8ZnyPEgVFn442ZdNqiVJRmBqrYRXe8P_ijQ7p8Vdz0TTrxUeT3lm8d9s" +
			"hnr2lfJT8ImUjvAA2Xez2Mlp8cBE5awDzT0qI0n6uiP1aCN_2_jLAeQTlqRHtfa64QQSUmFAAjVKPbByi7xho0uTOcbH510a6GYmJUAfmWjwZ6oD4ifKo8DYM-X72Eaw", frodoClaims,
	},
	{
		"RFC 7520 4.3", `"kty":"EC","kid":"bilbo.baggins@hobbiton.example","use":"sig","crv":"P-521","x":"AHKZLLOsCOzz5cY97ewNUajB957y-C-U88c3v13nmGZx6sYl_oJXu9A5RkTKqj` +
			`qvjyekWF-7ytDyRXYgCF5cj0Kt","y":"AdymlHvOiLxXkEhayXQnNCvDX4h9htZaCJN34kfmC6pV5OhQHiraVySsUdaQkAgDPrwQrJmbnX9cwlGfP-HqHZR1"`,
		"eyJhbGciOiJFUzUxMiIsImtpZCI6ImJpbGJvLmJhZ2dpbnNAaG9iYml0b24uZXhhbXBsZSJ9" + frodoPart + "AE_R_YZCChjn4791jSQCrdPZCNYqHXCTZH0-JZGYNlaAjP2kqaluUIIUnC9qvbu9Plon7KRT" +
			"zoNEuT4Va2cmL1eJAQy3mtPBu_u_sDDyYjnAMDxXPn7XrT0lw-kvAD890jl8e2puQens_IEKBpHABlsbEPX6sFY8OcGDqoRuBomu9xQ2", frodoClaims,
	},
	{
		"RFC 7520 4.4", `"kty":"oct","kid":"018c0ae5-4d9b-471b-bfd6-eef314bc7037","use":"sig","alg":"HS256","k":"hJtXIZ2uSN5kbQfbtTNWbpdmhkV8FJG-Onbc6mxCcYg"`,
		"eyJhbGciOiJIUzI1NiIsImtpZCI6IjAxOGMwYWU1LTRkOWItNDcxYi1iZmQ2LWVlZjMxNGJjNzAzNyJ9" + frodoPart + "s0h6KThzkfBBBkLspW1h84VsJZFTsPPqMDA7g1Md7p0", frodoClaims,
	},
}

// The examples of the standards.
func TestVectorsOfStandards(t *testing.T) {
	for _, tt := range standardVectors {
		t.Run(tt.source, func(t *testing.T) {
			keys, err := vectorKeys([]byte(`{"keys":[{` + tt.key + `}]}`))
			if err != nil {
				t.Fatal(err)
			}
			at := time.Unix(1300819379, 0)
			v := newVerifier(t, func(o *auth.Options) { o.Keys, o.Now, o.Issuer = keys, func() time.Time { return at }, "joe" })
			claims, err := v.Signed(t.Context(), tt.token)
			if err != nil || string(claims) != tt.claims {
				t.Errorf("the claims are %q, %v", claims, err)
			}
			if other := strings.Replace(tt.token, ".", ".A", 1); accepts(v, other) {
				t.Error("other claims are accepted")
			}
			_, err = v.Connection(t.Context(), tt.token)
			want := "claims" // text is signed, but is no claims
			if tt.claims == joeClaims {
				want = "accepted"
			}
			if reasonOf(t, err) != want {
				t.Errorf("as a token: %v", err)
			}
			at = at.Add(time.Second)
			if _, err := v.Connection(t.Context(), tt.token); want == "accepted" && reasonOf(t, err) != "expired" {
				t.Errorf("as a token, a second later: %v", err)
			}
		})
	}
}

// accepts reports whether a signature is confirmed.
func accepts(v *auth.Verifier, token string) bool {
	_, err := v.Signed(context.Background(), token)
	return err == nil
}

// vectorGroup is a group of vectors of Project Wycheproof: a key, or a set of keys, and tokens.
type vectorGroup struct {
	Comment string
	Key     json.RawMessage
	Set     json.RawMessage
	Tests   []struct {
		ID      int `json:"tcId"`
		Comment string
		JWS     string
		Result  string
	}
}

// The vectors of Project Wycheproof. explained has those that have another result here, and why.
func TestWycheproof(t *testing.T) {
	for file, explained := range map[string]map[int]string{
		"json_web_signature.json": {
			// The key says that it is for "PS256", and the token, as in RFC 7520 figure 20, has PS384. RFC 7517 §4.4 makes alg the algorithm that the key is
			// for, and a published key that says so is used for no other. TestVectorsOfStandards has the token with the key of the RFC.
			346: "invalid", 350: "invalid",
			// The key says that it is for "ES521", which does not exist. TestVectorsOfStandards has this token too, with the key of the RFC.
			347: "invalid", 351: "invalid",
			// A question mark inside of the header or the claims: the result says that it may be passed over. Here each value has one text only.
			372: "invalid", 373: "invalid",
			// The same token as the valid 357: the padding that they are about is not in the file. TestMalformed has padding in each part.
			367: "valid", 370: "valid",
		},
		"json_web_key.json": {
			// The modulus has the form of those of a faulty generator (ROCA, CVE-2017-15361). Which keys the identity provider has is its affair: whoever
			// can choose the published keys can also sign.
			7: "valid",
			// 47 and 63 bytes for HS384 and HS512: RFC 7518 §3.2 asks for as many as the hash has. 32 random bytes are out of reach of guessing, and issuers
			// use them with all three algorithms.
			11: "valid", 12: "valid",
			// Two secrets with one kid, or secrets beside public keys, which this test joins: published sets have no secrets (TestParse of package jwks),
			// and of several public keys with one kid each is tried.
			1: "valid", 4: "valid",
		},
	} {
		text, err := os.ReadFile("testdata/wycheproof/" + file)
		if err != nil {
			t.Fatal(err)
		}
		var groups []vectorGroup
		if err := json.Unmarshal(text, &groups); err != nil {
			t.Fatal(err)
		}
		count := 0
		for _, g := range groups {
			set := g.Set
			if set == nil {
				set = json.RawMessage(`{"keys":[` + string(g.Key) + `]}`)
			}
			keys, err := vectorKeys(set)
			for _, test := range g.Tests {
				count++
				got := "invalid"
				if err == nil && accepts(newVerifier(t, func(o *auth.Options) { o.Keys = keys }), test.JWS) {
					got = "valid"
				}
				want, isExplained := explained[test.ID]
				if isExplained && want == test.Result {
					t.Errorf("%s: the result of %d is that of the vector, and it is explained", file, test.ID)
				}
				if !isExplained {
					want = test.Result
				}
				if got != want {
					t.Errorf("%s %s: %d (%s) is %s, want %s", file, g.Comment, test.ID, test.Comment, got, want)
				}
			}
		}
		t.Logf("%s: %d vectors, of which %d are explained", file, count, len(explained))
		if count < 26 {
			t.Errorf("%s has only %d vectors", file, count)
		}
	}
}
