import type { Socket } from 'socket.io';

const EMPTY = Object.freeze({});

/**
 * Drops what coming in needed and nobody asks for again: the HTTP request with its headers, the handshake with the
 * token, the data of the admission, and the room that Socket.IO makes for each socket. That is half of what Socket.IO
 * keeps for a connection, and the token need not lie in memory. For a socket that is in, never before: the handshake
 * of Socket.IO is made from the request.
 */
export function forgetHandshake(socket: Socket): void {
  void socket.leave(socket.id);
  Object.assign(socket.conn, { request: undefined });
  Object.assign(socket, { handshake: EMPTY, data: EMPTY });
}

/** Whether the connection of a socket that is coming in has been stripped so, in another namespace. */
export function isBare(socket: Pick<Socket, 'conn'>): boolean {
  return (socket.conn.request as unknown) === undefined;
}
