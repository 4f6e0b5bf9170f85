// Tokens as a back end makes them, for the nodes of the scenarios.
import { createHmac } from "node:crypto";

const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");

// token returns a token that ends so many seconds from now.
export function token(claims, seconds = 600, secret = "a secret that only the scenarios know") {
  const now = Math.floor(Date.now() / 1000);
  const text = `${part({ alg: "HS256" })}.${part({ iat: now, exp: now + seconds, ...claims })}`;
  return `${text}.${createHmac("sha256", secret).update(text).digest("base64url")}`;
}
