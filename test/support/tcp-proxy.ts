import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { lastingPort } from './lasting-port.ts';

/** A stretch of network that can fail: what is behind it goes away and comes back, under one address. */
export interface TcpProxy {
  port: number;
  /** Cuts every connection and refuses new ones. */
  cut(): Promise<void>;
  mend(): Promise<void>;
  /** Closes the far end of every connection and leaves the near end open and silent. New connections work. */
  abandon(): void;
  /** Loses whatever the open connections carry from now on, while both their ends stay open. New connections work. */
  freeze(): void;
  /** While it is on, new connections are accepted and lead nowhere. */
  swallowNew(isOn: boolean): void;
  /** Delays whatever arrives from now on, in both directions; 0 ends it. */
  slow(ms: number): void;
}

interface Pair {
  near: Socket;
  far: Socket;
  isFrozen: boolean;
}

export async function startTcpProxy(target: { host: string; port: number }): Promise<TcpProxy> {
  const pairs = new Set<Pair>();
  let swallows = false;
  let delayMs = 0;

  const forward = (pair: Pair, from: Socket, to: Socket) => {
    const pass = (chunk: Buffer) => {
      if (pair.isFrozen || to.destroyed || to.writableEnded) return;
      if (to.write(chunk)) return;
      from.pause();
      to.once('drain', () => from.resume());
    };
    // What is delayed keeps its order, also when the delay ends: nothing overtakes what came before it.
    let delayed = 0;
    let last = Promise.resolve();
    const inOrder = (act: () => void) => {
      if (delayMs === 0 && delayed === 0) return act();
      delayed += 1;
      last = Promise.all([last, delay(delayMs)]).then(() => {
        delayed -= 1;
        act();
      });
    };
    from.on('data', (chunk) => inOrder(() => pass(chunk)));
    const leave = () => {
      if (!pair.isFrozen) to.destroy();
      if (from === pair.near) {
        pairs.delete(pair);
        pair.far.destroy();
      }
    };
    from.on('error', leave);
    from.on('end', () => inOrder(() => void (pair.isFrozen || to.end())));
    from.on('close', () => inOrder(leave));
  };
  const server = createServer((near) => {
    const pair: Pair = { near, far: connect(target), isFrozen: swallows };
    pairs.add(pair);
    forward(pair, pair.near, pair.far);
    forward(pair, pair.far, pair.near);
  });
  const port = await lastingPort();
  const listen = async () => {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
  };
  await listen();
  return {
    port,
    cut: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const { near, far } of pairs) {
          near.destroy();
          far.destroy();
        }
      }),
    mend: listen,
    abandon() {
      for (const pair of pairs) {
        pair.isFrozen = true;
        pair.far.destroy();
      }
    },
    freeze() {
      for (const pair of pairs) pair.isFrozen = true;
    },
    swallowNew(isOn) {
      swallows = isOn;
    },
    slow(ms) {
      delayMs = ms;
    },
  };
}
