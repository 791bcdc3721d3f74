import type { Socket } from 'socket.io';

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
