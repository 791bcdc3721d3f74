import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { Transform, type Writable } from 'node:stream';

/** The one address of all servers, as a balancer gives it: connections go to the server that it has chosen. */
export interface FrontDoor {
  url: string;
  /** Where newcomers are led from now on, and how much later each of their words arrives there. */
  to(server: { url: string }, options?: { delayMs?: number }): void;
  /**
   * The network behind the door fails without a word: clients lose their connection, and the server keeps its end open
   * and hears nothing, until it is told that they are gone. What the server still says arrives here.
   */
  strand(): { said(): string; gone(): void };
  /** From now on what one side says to the other is lost, on the connections that there are. */
  lose(words: 'of clients' | 'of servers'): void;
  close(): Promise<void>;
}

interface Pair {
  near: Socket;
  far: Socket;
  /** What clients say goes in here, which is `far` where nothing delays it. */
  inlet: Writable;
}

/** Passes everything on to `far`, in order, each piece so much later. */
function delayed(far: Socket, delayMs: number): Writable {
  const delay = new Transform({
    transform: (piece, _encoding, done) => void setTimeout(() => done(null, piece), delayMs),
  });
  delay.pipe(far);
  return delay;
}

export async function openFrontDoor(): Promise<FrontDoor> {
  let target: { host: string; port: number; delayMs: number } | undefined;
  const pairs = new Set<Pair>();
  const stranded = new Set<Socket>();
  const door = createServer((near) => {
    if (target === undefined) return near.destroy();
    const far = connect(target);
    const pair = { near, far, inlet: target.delayMs === 0 ? far : delayed(far, target.delayMs) };
    pairs.add(pair);
    // An end that fails closes as well, which is what counts.
    near.on('error', () => {}).on('close', () => leave(pair));
    far.on('error', () => {}).on('close', () => leave(pair));
    near.pipe(pair.inlet);
    far.pipe(near);
    return undefined;
  });
  const leave = (pair: Pair) => {
    if (!pairs.delete(pair)) return;
    pair.near.destroy();
    pair.far.destroy();
  };
  await new Promise<void>((resolve) => door.listen(0, '127.0.0.1', resolve));
  const { port } = door.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    to({ url }, { delayMs = 0 } = {}) {
      const { hostname, port: behind } = new URL(url);
      target = { host: hostname, port: Number(behind), delayMs };
    },
    strand() {
      let text = '';
      const left = [...pairs];
      for (const pair of left) {
        pairs.delete(pair);
        stranded.add(pair.far);
        pair.near.unpipe(pair.inlet);
        pair.far.unpipe(pair.near);
        pair.far.on('data', (bytes: Buffer) => (text += bytes.toString('latin1'))).resume();
        pair.near.destroy();
      }
      const gone = () => {
        for (const { far } of left) far.destroy();
      };
      return { said: () => text, gone };
    },
    lose(words) {
      for (const { near, far, inlet } of pairs) {
        const [from, to] = words === 'of clients' ? [near, inlet] : [far, near];
        from.unpipe(to);
        from.resume();
      }
    },
    async close() {
      const closed = new Promise((resolve) => door.close(resolve));
      for (const pair of pairs) leave(pair);
      for (const far of stranded) far.destroy();
      await closed;
    },
  };
}
