/** What is said of a server that speaks TLS where none was asked for, or the other way round. */
import { createServer, type Server } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import { expect, it } from "vitest";
import { connect } from "../../../src/connect.js";
import { UnavailableError } from "../../../src/core/errors.js";
import { certificate, certificateKey } from "../../servers/certificate.js";
import { portOf } from "../../servers/listening.js";

const ANSWER = "HTTP/1.0 400 Bad Request\r\nConnection: close\r\n\r\n";

/** Answers the first bytes with a text, as servers of HTTP do whatever they are sent. */
const answering = (text: string): Server =>
  createServer((socket) => socket.once("data", () => socket.end(`${ANSWER}${text}`)));
const silent = (): Server => createServer();
const tls = (): Server => createTlsServer({ cert: certificate, key: certificateKey });

const SENT_PLAINLY = "Client sent an HTTP request to an HTTPS server.\n";
const cases: readonly (readonly [string, string, () => Server, string])[] = [
  ["etcds", "speaks no TLS", () => answering("no"), "where no TLS is spoken, the URL is etcd://"],
  ["etcds", "is silent", silent, "where no TLS is spoken, the URL is etcd://"],
  ["etcds", "is not trusted", tls, "self-signed certificate; trust its certificate with ?ca=FILE"],
  ["etcd", "hangs up", tls, "where only TLS is spoken, the URL is etcds://"],
  ["etcd", "speaks TLS and says so", () => answering(SENT_PLAINLY), "the URL is etcds://"],
  ["consuls", "speaks no TLS", () => answering("no"), "no TLS is spoken, the URL is consul://"],
  ["consuls", "is silent", silent, "where no TLS is spoken, the URL is consul://"],
  ["consuls", "is not trusted", tls, "trust its certificate with the option tls.ca"],
  ["consul", "hangs up", tls, "where only TLS is spoken, the URL is consuls://"],
  ["consul", "speaks TLS and says so", () => answering(SENT_PLAINLY), "The URL is consuls://"],
];

it.each(cases)("%s:// where the server %s", async (scheme, _, server, words) => {
  const url = `${scheme}://127.0.0.1:${await portOf(server())}`;
  const error = await connect(url, { timeout: "2s" }).catch((caught: unknown) => caught);
  expect(error).toBeInstanceOf(UnavailableError);
  expect((error as Error).message).toContain(words);
});
