//! The peer tungstenite, as client and server. It reads scenarios, one a line, and answers each with a line that reports the result. A scenario
//! without a URL makes it a server for one connection; it then answers with its port first. It does not compress.

use serde_json::{json, Value};
use sha1::{Digest, Sha1};
use std::io::{self, BufRead, Read, Write};
use std::net::TcpListener;
use tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tungstenite::protocol::frame::{CloseFrame, Frame};
use tungstenite::{Error, Message, Utf8Bytes, WebSocket};

const LINE: &[u8] = "Grüße, 世界 🎉 ".as_bytes();

/// Generates the data of a message: repetitive text, digits that do not repeat, or bytes.
fn payload(message: &Value) -> Vec<u8> {
    let size = message["size"].as_u64().unwrap() as usize;
    if message["kind"] == "text" {
        let whole = size - size % LINE.len();
        return (0..size).map(|i| if i < whole { LINE[i % LINE.len()] } else { b'.' }).collect();
    }
    let digits = message["kind"] == "digits";
    let mut x: u64 = 1;
    let mut next = || {
        x = (x * 75 + 74) % 65537;
        if digits { b"0123456789abcdef"[(x >> 4 & 15) as usize] } else { x as u8 }
    };
    (0..size).map(|_| next()).collect()
}

/// Describes a received message.
fn digest(kind: &str, data: &[u8]) -> Value {
    let sum: String = Sha1::digest(data).iter().map(|b| format!("{b:02x}")).collect();
    json!({"kind": kind, "size": data.len(), "sha1": sum})
}

/// Sends a message in the given number of frames, which may split characters.
fn send<S: Read + Write>(ws: &mut WebSocket<S>, message: &Value) -> Result<(), Error> {
    let data = payload(message);
    let binary = message["kind"] == "binary";
    let pieces = message["pieces"].as_u64().unwrap() as usize;
    if pieces <= 1 {
        return ws.send(if binary { Message::from(data) } else { Message::from(String::from_utf8(data).unwrap()) });
    }
    let size = data.len().div_ceil(pieces);
    for i in 0..pieces {
        let kind = match i {
            0 if binary => Data::Binary,
            0 => Data::Text,
            _ => Data::Continue,
        };
        let piece = &data[(i * size).min(data.len())..((i + 1) * size).min(data.len())];
        ws.send(Message::Frame(Frame::message(piece.to_vec(), OpCode::Data(kind), i == pieces - 1)))?;
    }
    Ok(())
}

/// Runs a scenario until the connection ends. The end is an error here, even after a closing handshake.
fn talk<S: Read + Write>(ws: &mut WebSocket<S>, scenario: &Value, report: &mut Value) -> Result<(), Error> {
    let ping = scenario["ping"].as_str().unwrap();
    if !ping.is_empty() {
        ws.send(Message::Ping(ping.to_owned().into()))?;
    }
    for message in scenario["send"].as_array().unwrap() {
        send(ws, message)?;
    }
    let mut received: Vec<Value> = Vec::new();
    let mut closing = scenario["close"].is_null();
    loop {
        if !closing && scenario["receive"] == received.len() && report["pong"] == ping {
            closing = true;
            let code = scenario["close"]["code"].as_u64().unwrap() as u16;
            let reason: Utf8Bytes = scenario["close"]["reason"].as_str().unwrap().into();
            ws.close((code != 0).then(|| CloseFrame { code: CloseCode::from(code), reason }))?;
        }
        match ws.read()? {
            Message::Text(text) => received.push(digest("text", text.as_bytes())),
            Message::Binary(data) => received.push(digest("binary", &data)),
            Message::Pong(data) => report["pong"] = json!(String::from_utf8_lossy(&data)),
            Message::Close(frame) => {
                report["code"] = json!(frame.as_ref().map_or(1005, |f| u16::from(f.code)));
                report["reason"] = json!(frame.as_ref().map_or("", |f| f.reason.as_str()));
            }
            _ => {}
        }
        report["received"] = json!(received);
    }
}

/// Runs a scenario on a connection and reports the result.
fn play<S: Read + Write>(mut ws: WebSocket<S>, scenario: &Value, agreed: &str) -> Value {
    let mut report = json!({
        "agreed": agreed, "received": [], "pong": "", "code": 1006, "reason": "", "clean": false, "errors": [],
    });
    match talk(&mut ws, scenario, &mut report) {
        Err(Error::ConnectionClosed) => report["clean"] = json!(true),
        Err(err) => report["errors"] = json!([err.to_string()]),
        Ok(()) => unreachable!("a connection ends with an error"),
    }
    report
}

/// Answers with a line.
fn say(value: &Value) {
    println!("{value}");
    io::stdout().flush().unwrap();
}

fn main() {
    for line in io::stdin().lock().lines() {
        let scenario: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if let Some(url) = scenario["url"].as_str().filter(|u| !u.is_empty()) {
            let (ws, response) = tungstenite::connect(url).unwrap();
            let agreed = response.headers().get("sec-websocket-extensions").map_or("", |h| h.to_str().unwrap());
            say(&play(ws, &scenario, agreed));
            continue;
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        say(&json!({"port": listener.local_addr().unwrap().port()}));
        let (stream, _) = listener.accept().unwrap();
        say(&play(tungstenite::accept(stream).unwrap(), &scenario, ""));
    }
}
