import type { RequestListener, Server as HttpServer } from 'node:http';
import { Server, type Socket } from 'socket.io';
import { AGENT_MESSAGE_MAX_BYTES, HUB_PATH } from '../../protocol/index.ts';

const EMPTY = Object.freeze({});

/**
 * Releases what only the handshake needed: the HTTP request with its headers, the handshake with the token, the data of
 * the admission, and the room that Socket.IO creates for each socket. That is half of the memory of a connection, and the
 * token does not stay in memory. Call it only for a connected socket: Socket.IO builds its handshake from the request.
 */
export function releaseHandshake(socket: Socket): void {
  void socket.leave(socket.id);
  Object.assign(socket.conn, { request: undefined });
  Object.assign(socket, { handshake: EMPTY, data: EMPTY });
}

/** Whether the handshake of this connection was already released by a socket in another namespace. */
export function isHandshakeReleased(socket: Pick<Socket, 'conn'>): boolean {
  return (socket.conn.request as unknown) === undefined;
}

/**
 * The Socket.IO server of both namespaces. It accepts websockets only, because polling would need sticky sessions. So it
 * gets upgrades and no other requests: Engine.IO would answer requests to its path, and Express, which listens after it,
 * would answer them a second time, which throws outside of any handler and ends the process.
 */
export function createSocketServer(httpServer: HttpServer): Server {
  const inherited = httpServer.rawListeners('request') as RequestListener[];
  const io = new Server(httpServer, {
    path: HUB_PATH,
    transports: ['websocket'],
    serveClient: false,
    perMessageDeflate: false,
    httpCompression: false,
    maxHttpBufferSize: AGENT_MESSAGE_MAX_BYTES,
    // Disconnects a socket that joins no namespace.
    connectTimeout: 8000,
    pingInterval: 25_000,
    pingTimeout: 20_000,
  });
  httpServer.removeAllListeners('request');
  for (const listener of inherited) httpServer.on('request', listener);
  return io;
}
