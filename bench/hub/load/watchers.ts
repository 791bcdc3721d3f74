import { HUB_PATH } from '../../../src/protocol/index.ts';
import { textFrame, WebSocketClient } from './web-socket.ts';
import { percentile, sortedCopy } from '../harness.ts';
import type { WatcherCommand, WatcherCommands, WatchOrder } from './load-process.ts';

/** A process with many dashboards, each of which subscribes to all devices and reads what it receives. */

const NAMESPACE = '/dashboard,';
const SUBSCRIBE = textFrame(`42${NAMESPACE}1["devices:subscribe",{}]`);
const PONG = textFrame('3');
const OPENED = '0';
const PING = '2';
const CONNECTED = `40${NAMESPACE}`;
const SUBSCRIBED = `43${NAMESPACE}1[`;
const DELTA = `42${NAMESPACE}["devices:delta"`;
const LONGEST_START = DELTA.length;
const CHANGED_AT = /"lastSeenAt":"([^"]+)"/g;
/** One in this many dashboards parses the time of each change; the others only count frames. */
const LOOKS_CLOSELY = 50;

let watching = 0;
let frames = 0;
let updatesSeen = 0;
let delays: number[] = [];
let closed = 0;
const clients: WebSocketClient[] = [];

function open({ port, token = 'any' }: WatchOrder, index: number, done: () => void): void {
  const looks = index % LOOKS_CLOSELY === 0;
  const client = new WebSocketClient({ port, path: `${HUB_PATH}/?EIO=4&transport=websocket` }, '127.0.0.1', {
    opened: () => {},
    closed: () => {
      closed += 1;
    },
    text(self, bytes, start, end) {
      const head = bytes.toString('latin1', start, Math.min(end, start + LONGEST_START));
      if (head === DELTA) {
        frames += 1;
        if (looks) note(bytes.toString('utf8', start, end));
      } else if (head === PING) self.send(PONG);
      else if (head.startsWith(SUBSCRIBED)) done();
      else if (head.startsWith(CONNECTED)) self.send(SUBSCRIBE);
      else if (head.startsWith(OPENED)) self.send(textFrame(`40${NAMESPACE}${JSON.stringify({ token })}`));
      else throw new Error(`A dashboard got ${bytes.toString('utf8', start, Math.min(end, start + 200))}`);
    },
  });
  clients.push(client);
}

function note(text: string): void {
  const now = Date.now();
  for (const [, at = ''] of text.matchAll(CHANGED_AT)) {
    updatesSeen += 1;
    delays.push(now - Date.parse(at));
  }
}

async function watch(order: WatchOrder): Promise<{ watching: number }> {
  for (let index = 0; index < order.count; index++) {
    await new Promise<void>((done) => open(order, index, done));
    watching += 1;
  }
  return { watching };
}

const DO: {
  [C in WatcherCommand]: (ask: WatcherCommands[C]['ask']) => Promise<WatcherCommands[C]['answer']>;
} = {
  watch,
  async seen() {
    const sorted = sortedCopy(delays);
    const answer = {
      frames,
      updatesSeen,
      lookers: Math.ceil(clients.length / LOOKS_CLOSELY),
      delayP50: percentile(sorted, 0.5),
      delayP99: percentile(sorted, 0.99),
      closed,
    };
    frames = 0;
    updatesSeen = 0;
    delays = [];
    return answer;
  },
  async stopReading() {
    for (const client of clients) client.pause();
    return {};
  },
};

process.on('message', ({ number, command, ask }: { number: number; command: WatcherCommand; ask: never }) => {
  // The table pairs each command with its parameters.
  (DO[command] as (ask: unknown) => Promise<unknown>)(ask).then(
    (answer) => process.send?.({ number, answer }),
    (error: unknown) => process.send?.({ number, error: String(error) }),
  );
});
process.once('disconnect', () => process.exit(0));
process.send?.('ready');
