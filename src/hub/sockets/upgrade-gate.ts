import type { IncomingMessage, Server as HttpServer } from 'node:http';
import type { Duplex } from 'node:stream';
import { AGENT_QUERY, HUB_PATH, REFUSAL_HEADER, type Refusal } from '../../protocol/index.ts';
import type { AddressAdmission } from './address-admission.ts';

interface Admits {
  /** Why nobody at all is taken in. */
  closed(): Refusal | undefined;
  /** Why one more is not taken in now; nothing when it was. */
  refusal(): Refusal | undefined;
  giveBack(): void;
  /** The same by address, before anything is taken of what all addresses share. */
  addresses: Pick<AddressAdmission, 'refusal' | 'giveBack'>;
  /** Where the request comes from: all addresses that count as one have the same prefix. */
  prefixOf(request: IncomingMessage): string;
}

/**
 * Turns agents away before their connection becomes a websocket, where that costs far less than behind
 * Socket.IO's handshake: a fleet that comes back at once is mostly refusals, and people wait behind them. Only those who
 * say that they are agents: dashboards come by the same path, and are let through as long as their address has tries.
 */
export class UpgradeDoor {
  readonly #admits: Admits;
  /** Let in here and not seen since, with what gives their place back when they go before that. */
  readonly #letIn = new Map<IncomingMessage, () => void>();
  /** The address of whose tries each connection has taken one. */
  readonly #tries = new WeakMap<IncomingMessage, string>();

  /** @param httpServer  with Socket.IO listening on it already: this goes before it */
  constructor(httpServer: HttpServer, admits: Admits) {
    this.#admits = admits;
    const inherited = httpServer.listeners('upgrade');
    httpServer.removeAllListeners('upgrade');
    httpServer.on('upgrade', (request, socket, head) => {
      const refusal = this.#refusalAtUpgrade(request);
      if (refusal !== undefined) return turnAway(socket, refusal);
      for (const listener of inherited) listener.call(httpServer, request, socket, head);
    });
  }

  /** Why an agent that has come to its namespace is not let in. Who was let in before is not counted again. */
  refusal(request: IncomingMessage): Refusal | undefined {
    const forget = this.#letIn.get(request);
    if (forget === undefined) return this.#admits.closed() ?? this.#admits.refusal();
    this.#letIn.delete(request);
    request.socket.off('close', forget);
    return this.#admits.closed();
  }

  giveBack(): void {
    this.#admits.giveBack();
  }

  /** Whoever came by this request is one of ours, or did not get in for no fault of their own: it was no failed try. */
  hasNotFailed(request: IncomingMessage): void {
    const prefix = this.#tries.get(request);
    if (prefix === undefined) return;
    this.#tries.delete(request);
    this.#admits.addresses.giveBack(prefix);
  }

  #refusalAtUpgrade(request: IncomingMessage): Refusal | undefined {
    const { url = '' } = request;
    if (!url.startsWith(HUB_PATH)) return undefined;
    const isAgent = saysAgent(url);
    const closed = isAgent ? this.#admits.closed() : undefined;
    if (closed !== undefined) return closed;
    const prefix = this.#admits.prefixOf(request);
    const refusalOfAddress = this.#admits.addresses.refusal(prefix);
    if (refusalOfAddress !== undefined) return refusalOfAddress;
    this.#tries.set(request, prefix);
    return isAgent ? this.#letInRefusal(request) : undefined;
  }

  #letInRefusal(request: IncomingMessage): Refusal | undefined {
    const refusal = this.#admits.refusal();
    if (refusal !== undefined) {
      this.hasNotFailed(request);
      return refusal;
    }
    const forget = () => {
      if (this.#letIn.delete(request)) this.giveBack();
    };
    this.#letIn.set(request, forget);
    request.socket.once('close', forget);
    return undefined;
  }
}

const AGENT_MARK = new URLSearchParams(AGENT_QUERY).toString();

const saysAgent = (url: string) => (url.split('?', 2)[1] ?? '').split('&').includes(AGENT_MARK);

function turnAway(socket: Duplex, refusal: Refusal): void {
  // Who has gone meanwhile need not hear it; without a listener that would end the process.
  socket.on('error', () => {});
  const seconds = Math.ceil((refusal.retryAfterMs ?? 0) / 1000);
  // What was written goes out before the connection ends; to end it in two steps would cost a system call more.
  socket.write(
    `HTTP/1.1 503 Service Unavailable\r\nRetry-After: ${seconds}\r\n${REFUSAL_HEADER}: ${JSON.stringify(refusal)}\r\n` +
      'Connection: close\r\nContent-Length: 0\r\n\r\n',
    () => socket.destroy(),
  );
}
