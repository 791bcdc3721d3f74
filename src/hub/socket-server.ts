import type { Server as HttpServer } from 'node:http';
import { Server } from 'socket.io';
import { AGENT_MESSAGE_MAX_BYTES, HUB_PATH } from '../protocol/index.ts';
import { OneWriteServer } from './one-write-socket.ts';

/** The Socket.IO server both namespaces live on. Websocket only: polling would need sticky sessions. */
export function createSocketServer(httpServer: HttpServer): Server {
  return new Server(httpServer, {
    path: HUB_PATH,
    transports: ['websocket'],
    serveClient: false,
    perMessageDeflate: false,
    wsEngine: OneWriteServer,
    httpCompression: false,
    maxHttpBufferSize: AGENT_MESSAGE_MAX_BYTES,
    // A socket that joins no namespace is not ours; it does not get to sit.
    connectTimeout: 8000,
    pingInterval: 25_000,
    pingTimeout: 20_000,
  });
}
