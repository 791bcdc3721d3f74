import type { IncomingMessage, Server as HttpServer } from 'node:http';
import type { Duplex } from 'node:stream';
import { AGENT_QUERY, HUB_PATH, REFUSAL_HEADER, type Refusal } from '../../protocol/index.ts';
import type { AddressAdmission } from './address-admission.ts';

interface AdmissionRules {
  /** Why no agent is accepted now, if so. */
  closed(): Refusal | undefined;
  /** Admits one connection, or returns why not. */
  refusal(): Refusal | undefined;
  /** Undoes an admission. */
  refund(): void;
  /** The limits of each address, which are checked before the common budget is used. */
  addresses: Pick<AddressAdmission, 'refusal' | 'refund'>;
  /** The origin of a request. Addresses that count as one have the same prefix. */
  prefixOf(request: IncomingMessage): string;
}

/**
 * Refuses agents before their connection becomes a websocket, which costs far less than a refusal in Socket.IO's
 * handshake: when a whole fleet reconnects, most answers are refusals, and people wait behind them. Only connections that
 * declare themselves as agents are refused. Dashboards use the same path and pass as long as their address has attempts.
 */
export class UpgradeGate {
  readonly #rules: AdmissionRules;
  /** Admitted requests that have not reached their namespace yet, with the function that refunds them if they end first. */
  readonly #admitted = new Map<IncomingMessage, () => void>();
  /** The address whose attempt each connection has used. */
  readonly #attempts = new WeakMap<IncomingMessage, string>();

  /** @param httpServer  Socket.IO must already listen on it, because the gate runs before its listeners */
  constructor(httpServer: HttpServer, rules: AdmissionRules) {
    this.#rules = rules;
    const inherited = httpServer.listeners('upgrade');
    httpServer.removeAllListeners('upgrade');
    httpServer.on('upgrade', (request, socket, head) => {
      const refusal = this.#refusalAtUpgrade(request);
      if (refusal !== undefined) return refuse(socket, refusal);
      for (const listener of inherited) listener.call(httpServer, request, socket, head);
    });
  }

  /** Why an agent that has reached its namespace is refused, if so. A connection that the gate admitted counts once. */
  refusal(request: IncomingMessage): Refusal | undefined {
    const refundOnClose = this.#admitted.get(request);
    if (refundOnClose === undefined) return this.#rules.closed() ?? this.#rules.refusal();
    this.#admitted.delete(request);
    request.socket.off('close', refundOnClose);
    return this.#rules.closed();
  }

  refund(): void {
    this.#rules.refund();
  }

  /** Returns the attempt of an address whose connection succeeded, or failed for a reason that is not its own. */
  refundAttempt(request: IncomingMessage): void {
    const prefix = this.#attempts.get(request);
    if (prefix === undefined) return;
    this.#attempts.delete(request);
    this.#rules.addresses.refund(prefix);
  }

  #refusalAtUpgrade(request: IncomingMessage): Refusal | undefined {
    const { url = '' } = request;
    if (!url.startsWith(HUB_PATH)) return undefined;
    const isAgent = declaresAgent(url);
    const closed = isAgent ? this.#rules.closed() : undefined;
    if (closed !== undefined) return closed;
    const prefix = this.#rules.prefixOf(request);
    const refusalOfAddress = this.#rules.addresses.refusal(prefix);
    if (refusalOfAddress !== undefined) return refusalOfAddress;
    this.#attempts.set(request, prefix);
    return isAgent ? this.#admit(request) : undefined;
  }

  #admit(request: IncomingMessage): Refusal | undefined {
    const refusal = this.#rules.refusal();
    if (refusal !== undefined) {
      this.refundAttempt(request);
      return refusal;
    }
    const refundOnClose = () => {
      if (this.#admitted.delete(request)) this.refund();
    };
    this.#admitted.set(request, refundOnClose);
    request.socket.once('close', refundOnClose);
    return undefined;
  }
}

const AGENT_MARK = new URLSearchParams(AGENT_QUERY).toString();

const declaresAgent = (url: string) => (url.split('?', 2)[1] ?? '').split('&').includes(AGENT_MARK);

function refuse(socket: Duplex, refusal: Refusal): void {
  // The client may have disconnected. Without a listener that error would end the process.
  socket.on('error', () => {});
  const seconds = Math.ceil((refusal.retryAfterMs ?? 0) / 1000);
  // The callback runs when the answer was sent. Ending the connection first would cost another system call.
  socket.write(
    `HTTP/1.1 503 Service Unavailable\r\nRetry-After: ${seconds}\r\n${REFUSAL_HEADER}: ${JSON.stringify(refusal)}\r\n` +
      'Connection: close\r\nContent-Length: 0\r\n\r\n',
    () => socket.destroy(),
  );
}
