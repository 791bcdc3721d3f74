import { expect } from 'chai';
import fc from 'fast-check';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Writable } from 'node:stream';
import { Server, type Socket } from 'socket.io';
import { WebSocket, WebSocketServer } from 'ws';
import {
  AgentSocketFastPath,
  type UnreadLimits,
  StallTimer,
} from '../../../../src/hub/wire/agent-socket-fast-path.ts';
import { textFrame } from '../../../../src/hub/wire/frame-fast-path.ts';
import { eventually } from '../../../support/eventually.ts';

const EVENTS = new Set(['heartbeat', 'command:result']);

/** The answer comes last, also where there is nothing before it. */
function fromArgs(args: unknown[], told: Parameters<Take>[1]) {
  const [event, payload] = args;
  told(event, typeof payload === 'function' ? undefined : payload, args.at(-1));
}

type Take = (socket: Socket, told: (event: unknown, payload: unknown, answer: unknown) => void) => void;

/** As the transport does it: what the wire leaves comes by Socket.IO. */
const wired: Take = (socket, told) => {
  const wire = new AgentSocketFastPath(socket, EVENTS);
  wire.install({ receive: told });
  socket.use((args) => fromArgs(args, told));
  wire.emit('command', { id: 'ü' }, (answer) => told('receipt', answer, undefined));
};
const stock: Take = (socket, told) => {
  socket.use((args) => fromArgs(args, told));
  socket.emit('command', { id: 'ü' }, (answer: unknown) => told('receipt', answer, undefined));
};

/** A server and one raw client of it, with all that either side saw. */
async function connection(take: Take, pingInterval = 25_000) {
  const http = createServer();
  const io = new Server(http, { transports: ['websocket'], pingInterval, maxHttpBufferSize: 200_000 });
  const heard: unknown[][] = [];
  let closed: string | undefined;
  let throughEngine = 0;
  let takenApart = 0;
  io.engine.on('connection', (conn: Socket['conn']) => {
    conn.on('packet', ({ type }: { type: string }) => (throughEngine += Number(type === 'message')));
    const { _receiver: reader } = (conn.transport as unknown as { socket: { _receiver: Writable } }).socket;
    const takeApart = reader._write.bind(reader);
    reader._write = (...chunk) => {
      takenApart += 1;
      takeApart(...chunk);
    };
  });
  io.of('/agents').on('connection', (socket) => {
    take(socket, (event, payload, answer) => {
      heard.push([event, payload]);
      if (typeof answer !== 'function') return;
      (answer as (said: object) => void)({ ok: true, event });
      // Twice does not count.
      (answer as (said: object) => void)({ ok: false });
    });
    socket.on('disconnect', (reason) => (closed = reason));
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const client = new WebSocket(
    `ws://127.0.0.1:${(http.address() as AddressInfo).port}/socket.io/?EIO=4&transport=websocket`,
  );
  const answers: string[] = [];
  client.on('message', (data) => {
    const text = (data as Buffer).toString();
    if (text.startsWith('0')) client.send('40/agents,');
    else if (text === '2') answers.push('ping');
    else answers.push(text);
  });
  client.on('error', () => {});
  await eventually(
    async () => answers.length,
    (count) => count >= 2,
  );
  return {
    client,
    heard,
    answers,
    closed: () => closed,
    throughEngine: () => throughEngine,
    takenApart: () => takenApart,
    close: async () => {
      client.terminate();
      await io.close();
    },
  };
}

/** The id of an acknowledgement that it asked for is its own affair; the session's is by chance. */
const comparable = (answers: string[]) =>
  answers.map((text) =>
    text.replace(/^42\/agents,\d+/, '42/agents,N').replace(/"sid":"[^"]*"(,"pid":"[^"]*")?/, ''),
  );

async function transcript(take: Take, packets: readonly (string | Buffer)[]) {
  const { client, heard, answers, closed, close } = await connection(take);
  const id = /^42\/agents,(\d+)\[/.exec(answers[1] ?? '')?.[1] ?? '';
  for (const packet of packets) {
    client.send(typeof packet === 'string' ? packet.replace('ID', id) : packet);
  }
  client.send('42/agents,77["heartbeat","the end"]');
  await eventually(
    async () => closed() !== undefined || answers.some((text) => text.startsWith('43/agents,77[')),
    Boolean,
  );
  const result = { heard: [...heard], answers: comparable(answers), closed: closed() };
  await close();
  return result;
}

describe('an agent that does not read what it is sent', () => {
  const MESSAGE = { id: 'x'.repeat(60_000) };
  const stalled = async (limits: UnreadLimits) => {
    let unread = 0;
    let wire: AgentSocketFastPath | undefined;
    const peer = await connection((socket, told) => {
      wire = new AgentSocketFastPath(socket, EVENTS, () => (unread += 1), limits);
      wire.install({ receive: told });
      wire.emit('command', { id: 'first' }, () => {});
    });
    peer.client.pause();
    return { ...peer, wire, unread: () => unread };
  };
  /** Many, because first the buffers of the network take some megabytes. */
  const flood = ({ wire, closed }: Awaited<ReturnType<typeof stalled>>) => {
    for (let n = 0; n < 20 && closed() === undefined; n++) wire?.emit('command', MESSAGE, () => {});
  };
  const LARGE = Number.MAX_SAFE_INTEGER;

  it('is disconnected when too much data waits for it', async () => {
    const peer = await stalled({
      stalledBytes: 100_000,
      patienceMs: LARGE,
      maxBytes: 3_000_000,
      maxPackets: LARGE,
    });
    const { unread, closed, close } = peer;
    await eventually(
      () => {
        flood(peer);
        return closed();
      },
      (reason) => reason !== undefined,
    );
    expect(unread()).to.equal(1);
    await close();
  });

  it('is disconnected when it reads nothing for a time', async () => {
    const peer = await stalled({
      stalledBytes: 100_000,
      patienceMs: 100,
      maxBytes: LARGE,
      maxPackets: LARGE,
    });
    const { unread, closed, close } = peer;
    await eventually(
      () => {
        flood(peer);
        return closed();
      },
      (reason) => reason !== undefined,
    );
    expect(unread()).to.equal(1);
    await close();
  });

  it('has stalled since it last read something, however little that was', () => {
    const stall = new StallTimer(0, 1000);
    expect(stall.stalledMs(100, 1500, 500)).to.equal(100);
    expect(stall.stalledMs(200, 2000, 500)).to.equal(200);
    expect(stall.stalledMs(300, 2499, 500)).to.equal(0);
    expect(stall.stalledMs(450, 2999, 500)).to.equal(150);
  });

  it('is found by the regular check when Engine.IO itself sends the answers', async () => {
    const { client, wire, closed, close } = await stalled({
      stalledBytes: LARGE,
      patienceMs: LARGE,
      maxBytes: 100_000,
      maxPackets: LARGE,
    });
    await eventually(
      () => {
        for (let n = 0; n < 2000; n++) client.ping('x'.repeat(125));
        wire?.endIfUnread();
        return closed();
      },
      (reason) => reason !== undefined,
    );
    await close();
  });
});

describe('the fast path of an agent socket', () => {
  const cases: Record<string, (string | Buffer)[]> = {
    'events with and without an id': [
      '42/agents,1["heartbeat",{"a":1}]',
      '42/agents,["heartbeat",{"a":2}]',
      '42/agents,123456789["command:result",{"a":"[ü,\\u0000]"}]',
      '42/agents,0["heartbeat"]',
      '42/agents,2["heartbeat",1,2,3]',
    ],
    'events that are none of ours, between those that are': [
      '42/agents,1["heartbeat",1]',
      '42/agents,2["unheard",{"a":1}]',
      '42/agents,3[7,{"a":1}]',
    ],
    'acknowledgements, of what was sent and of what was not': [
      '43/agents,ID[{"ok":true}]',
      '43/agents,ID[{"ok":true}]',
      '43/agents,9999[{"ok":true}]',
      '43/agents,[{"ok":true}]',
    ],
    'a binary event': ['451-/agents,1["heartbeat",{"_placeholder":true,"num":0}]', Buffer.from('abc')],
    'a reserved event': ['42/agents,1["disconnect"]'],
    'half a message': ['42/agents,1["heartbeat",{"a":'],
    'an object instead of a list': ['42/agents,1{"a":[1]}'],
    'another namespace': ['42/agentsx,1["heartbeat",{}]'],
    'no namespace': ['421["heartbeat",{}]'],
    'an unknown packet': ['49/agents,1["heartbeat",{}]'],
    'the end of the namespace, and more behind it': ['41/agents,', '42/agents,1["heartbeat",{}]'],
    nothing: ['', '4', '42', '42/agents,', '42/agents,1'],
    'too much': [`42/agents,1["heartbeat","${'x'.repeat(300_000)}"]`],
    'a long message': [`42/agents,1["heartbeat","${'ü'.repeat(70_000)}"]`],
  };
  for (const [name, packets] of Object.entries(cases)) {
    it(`handles ${name} as Socket.IO does`, async () => {
      const [ours, theirs] = await Promise.all([transcript(wired, packets), transcript(stock, packets)]);
      // An answer to strange packets may come behind others: Socket.IO hands those on a tick later.
      const sorted = ({ heard, answers, closed }: typeof ours) => ({
        heard: heard.map((one) => JSON.stringify(one)).sort(),
        answers: [...answers].sort(),
        closed,
      });
      expect(sorted(ours)).to.deep.equal(sorted(theirs));
    });
  }

  it('bypasses Engine.IO and the receiver of ws in the installed versions', async () => {
    for (const [take, expected] of [
      [wired, 0],
      [stock, 20],
    ] as const) {
      const { client, answers, throughEngine, takenApart, close } = await connection(take);
      const before = [throughEngine(), takenApart()];
      for (let id = 0; id < 20; id++) {
        client.send(`42/agents,${id}["heartbeat",{}]`);
        // Each in a piece of its own.
        await eventually(async () => answers.some((text) => text.startsWith(`43/agents,${id}[`)), Boolean);
      }
      const [toEngine = 0, toReader = 0] = before;
      expect(throughEngine() - toEngine).to.equal(expected);
      expect(takenApart() - toReader).to.equal(expected);
      await close();
    }
  });

  it('keeps the order of events and acknowledgements', async () => {
    const packets = [
      '42/agents,["heartbeat",1]',
      '43/agents,ID[{"ok":true}]',
      '42/agents,["command:result",2]',
    ];
    const { heard } = await transcript(wired, packets);
    expect(heard.slice(0, 3)).to.deep.equal([
      ['heartbeat', 1],
      ['receipt', { ok: true }],
      ['command:result', 2],
    ]);
  });

  it('accepts any message instead of a pong, as Engine.IO does, and handles it', async () => {
    const { client, heard, answers, closed, close } = await connection(wired, 100);
    await eventually(async () => answers.includes('ping'), Boolean);
    client.send('42/agents,5["heartbeat","instead"]');
    await eventually(async () => answers.some((text) => text.startsWith('43/agents,5[')), Boolean);
    expect(heard).to.deep.equal([['heartbeat', 'instead']]);
    const pings = () => answers.filter((text) => text === 'ping').length;
    const before = pings();
    client.send('3');
    await eventually(pings, (count) => count > before);
    expect(closed()).to.equal(undefined);
    await close();
  });
});

describe('a text frame', () => {
  it('is read by a websocket as the original text, for any length', async () => {
    const lengths = fc.constantFrom(0, 1, 124, 125, 126, 127, 65_534, 65_535, 65_536, 70_000);
    const texts = fc.tuple(lengths, fc.constantFrom('a', 'ü', '€', '😀')).map(([n, c]) => c + 'x'.repeat(n));
    const http = createServer();
    const sent = fc.sample(texts, 60);
    http.on('upgrade', (request, socket) => {
      new WebSocketServer({ noServer: true }).handleUpgrade(request, socket, Buffer.alloc(0), () => {
        for (const text of sent) socket.write(textFrame(text));
      });
    });
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    const client = new WebSocket(`ws://127.0.0.1:${(http.address() as AddressInfo).port}`);
    const read: string[] = [];
    client.on('message', (data) => read.push((data as Buffer).toString()));
    await eventually(
      async () => read.length,
      (count) => count === sent.length,
    );
    expect(read).to.deep.equal(sent);
    client.terminate();
    http.close();
  });
});
