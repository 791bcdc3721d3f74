import type { Server, Socket } from 'socket.io';
import type { Logger } from '../../platform/logger.ts';
import type { Metrics } from '../../platform/metrics.ts';
import { AgentSocketFastPath, type EventReceiver } from './agent-socket-fast-path.ts';
import { type FrameReader, installFrameFastPath, textFrame } from './frame-fast-path.ts';

/** How the messages of agents are read and written: directly on the websocket, or by Socket.IO as it comes. */
export type WirePath = 'direct' | 'stock';

/** One agent's connection, below the meaning of its messages. */
export interface AgentWire {
  /** The number of sent events that were not acknowledged yet. */
  readonly unacknowledged: number;
  /** Passes the events that the agent sends from now on to the receiver. */
  install(receiver: EventReceiver): void;
  /** @param receipt  called with the unparsed acknowledgement, unless the connection ends before it comes */
  emit(event: string, payload: object, receipt: (answer: unknown) => void): void;
  /** Sends a ping of Engine.IO, whose timers stay as they are. False if that is not possible. */
  ping(): boolean;
  /** Ends the connection if the agent leaves unread what it was sent. */
  endIfUnread(): void;
}

type OpenWire = (socket: Socket, events: ReadonlySet<string>, onUnread: () => void) => AgentWire;

/**
 * Chooses the path for all agents of this process. The direct path is written for the insides of the installed `ws` and
 * Engine.IO. If they have another shape, agents are served by the stock path, which only costs more, and the log and a
 * metric say so.
 * @param wanted  the stock path is taken without a check
 */
export function chooseWire(io: Server, wanted: WirePath, parts: { log: Logger; metrics: Metrics }): OpenWire {
  let path = wanted;
  const fallBack = (reason: string) => {
    path = 'stock';
    parts.log.warn({ reason }, 'hub.agent_wire_stock');
  };
  if (path === 'direct') {
    const reason = differenceOfReader(io);
    if (reason !== undefined) fallBack(reason);
  }
  parts.metrics.gauge(
    'muster_agent_wire_direct',
    'Whether messages of agents are read directly from their websockets (1) or by the slower stock path (0).',
    () => (path === 'direct' ? 1 : 0),
  );
  let isEngineKnown = false;
  return (socket, events, onUnread) => {
    if (path === 'direct' && !isEngineKnown) {
      const reason = differenceOfConnection(socket);
      if (reason === undefined) isEngineKnown = true;
      else fallBack(reason);
    }
    return path === 'direct' ? new AgentSocketFastPath(socket, events, onUnread) : new StockAgentWire(socket);
  };
}

type ReaderClass = new (options: {
  isServer: boolean;
  maxPayload: number;
}) => FrameReader & {
  on(event: 'message', listener: (data: Buffer) => void): void;
};

/** Sends one frame through the installed reader of `ws` with and without the direct path. */
function differenceOfReader(io: Server): string | undefined {
  // Engine.IO keeps its websocket server, with the classes of `ws`, in members that its types leave out.
  const { ws } = io.engine as unknown as { ws?: { options?: { WebSocket?: { Receiver?: ReaderClass } } } };
  const Reader = ws?.options?.WebSocket?.Receiver;
  if (typeof Reader !== 'function') return 'the reader of ws was not found';
  try {
    const direct: string[] = [];
    const reader = new Reader({ isServer: true, maxPayload: 1000 });
    installFrameFastPath(reader, { isOpen: true, onText: (text) => direct.push(text.toString()) });
    reader.write(maskedFrame('42["direct"]'));
    if (direct.join() !== '42["direct"]') return 'the reader of ws has another state between frames';
    const stock: string[] = [];
    const plain = new Reader({ isServer: true, maxPayload: 1000 });
    plain.on('message', (data) => stock.push(data.toString()));
    plain.write(maskedFrame('42["stock"]'));
    // A reader may pass a message on in a later turn; one that passes on another text reads frames otherwise.
    if (stock.length > 0 && stock.join() !== '42["stock"]') return 'the reader of ws reads frames otherwise';
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

const MASK = [1, 2, 3, 4] as const;

/** A short text as a client sends it (RFC 6455, 5.3). */
function maskedFrame(text: string): Buffer {
  const [first = 0, length = 0, ...bytes] = textFrame(text);
  const masked = bytes.map((byte, at) => byte ^ (MASK[at % 4] ?? 0));
  return Buffer.from([first, length | 0x80, ...MASK, ...masked]);
}

function differenceOfConnection({ conn }: Socket): string | undefined {
  // These members are private, so they are missing from the types.
  const inside = conn as unknown as {
    writeBuffer?: unknown;
    sendPacket?: unknown;
    pingTimeoutTimer?: unknown;
    transport?: { socket?: { _sender?: { sendFrame?: unknown }; _receiver?: object } };
  };
  const webSocket = inside.transport?.socket;
  if (!Array.isArray(inside.writeBuffer)) return 'Engine.IO has no list of packets that wait';
  if (typeof inside.sendPacket !== 'function') return 'Engine.IO has no function for pings';
  if (!('pingTimeoutTimer' in inside)) return 'Engine.IO has no timer for pongs';
  if (typeof webSocket?._sender?.sendFrame !== 'function') return 'ws has no function for frames';
  if (webSocket._receiver === undefined) return 'the connection of ws has no reader';
  return undefined;
}

/**
 * The stock path: Socket.IO reads and writes the packets, and the transport gets the events from it. What an agent does
 * not read is bounded by the time-out of Engine.IO's pings, which come behind it, and by the number of unacknowledged
 * messages.
 */
class StockAgentWire implements AgentWire {
  readonly #socket: Socket;
  #unacknowledged = 0;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  get unacknowledged(): number {
    return this.#unacknowledged;
  }

  /** Events reach the receiver by Socket.IO, to which the transport listens on either path. */
  install(): void {}

  emit(event: string, payload: object, receipt: (answer: unknown) => void): void {
    this.#unacknowledged += 1;
    this.#socket.emit(event, payload, (answer: unknown) => {
      this.#unacknowledged -= 1;
      receipt(answer);
    });
  }

  ping(): boolean {
    const { conn } = this.#socket;
    // Private in Engine.IO, and missing if it is another version.
    const { sendPacket } = conn as unknown as { sendPacket?: (type: 'ping') => void };
    if (conn.readyState !== 'open' || typeof sendPacket !== 'function') return false;
    sendPacket.call(conn, 'ping');
    return true;
  }

  endIfUnread(): void {}
}
