import { expect } from 'chai';
import express from 'express';
import { once } from 'node:events';
import { type AddressInfo, connect } from 'node:net';
import { contentDisposition, StreamAnswer } from '../../../src/platform/http/stream-answer.ts';
import { eventually } from '../../support/eventually.ts';

const PIECE = 4 * 1024 * 1024;
/** More than the network takes by itself. */
const PIECES_MAX = 8;
/** When so many looks have found no new piece, none is made: what makes them runs in this process, between the looks. */
const STILL_POLLS = 30;
const noted = { orgId: '', resourceId: '', details: {} };

describe('an answer that is made while it is sent', () => {
  async function served(answer: () => StreamAnswer, work: (port: number) => Promise<void>): Promise<void> {
    const app = express();
    app.set('env', 'test');
    app.get('/', (_request, response, next) => void answer().send(response).catch(next));
    const server = app.listen(0, '127.0.0.1');
    await once(server, 'listening');
    try {
      await work((server.address() as AddressInfo).port);
    } finally {
      server.closeAllConnections();
      server.close();
    }
  }
  /** Endless, and says how much of it was made, and whether that is over. */
  function endless(patienceMs?: number) {
    const state = { made: 0, isOver: false };
    const read = async function* () {
      try {
        for (;;) {
          state.made += 1;
          yield Buffer.alloc(PIECE);
          await new Promise(setImmediate);
        }
      } finally {
        state.isOver = true;
      }
    };
    const type = 'application/octet-stream';
    const answer = () =>
      new StreamAnswer({
        fileName: 'f',
        type,
        read,
        noted,
        ...(patienceMs === undefined ? {} : { patienceMs }),
      });
    return { state, answer };
  }
  async function asked(port: number) {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => undefined);
    await once(socket, 'connect');
    socket.pause();
    socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    return socket;
  }

  it('is made no faster than it is taken, and not after its client has left', async () => {
    const { state, answer } = endless();
    await served(answer, async (port) => {
      const socket = await asked(port);
      // What the network takes without a reader: some megabytes.
      let polls = 0;
      let last = 0;
      await eventually(
        () => {
          polls = state.made > 0 && state.made === last ? polls + 1 : 0;
          last = state.made;
          return polls >= STILL_POLLS || last >= PIECES_MAX;
        },
        (isDecided) => isDecided,
      );
      expect(last).to.be.lessThan(PIECES_MAX);
      socket.destroy();
      await eventually(
        () => state.isOver,
        (isOver) => isOver,
      );
    });
  });

  it('cuts off a client that takes a byte at a time', async () => {
    const slow = endless(200);
    await served(slow.answer, async (port) => {
      const socket = await asked(port);
      const timer = setInterval(() => socket.read(1), 20);
      await eventually(
        () => slow.state.isOver,
        (isOver) => isOver,
      );
      clearInterval(timer);
      socket.destroy();
    });
  });

  it('is an error if its first piece cannot be made, and cut off if a later one cannot', async () => {
    const failing = (after: number) => () =>
      new StreamAnswer({
        fileName: 'f',
        type: 'application/octet-stream',
        known: { length: 100, etag: '"e"' },
        noted,
        read: async function* () {
          if (after > 0) yield Buffer.alloc(after);
          throw new Error('broken');
        },
      });
    await served(failing(0), async (port) => {
      const answer = await fetch(`http://127.0.0.1:${port}/`);
      expect(answer.status).to.equal(500);
      expect(answer.headers.get('content-disposition')).to.equal(null);
    });
    await served(failing(50), async (port) => {
      const cut = await fetch(`http://127.0.0.1:${port}/`)
        .then((answer) => answer.arrayBuffer())
        .catch(() => 'cut');
      expect(cut).to.equal('cut');
    });
  });

  it('is stored under a name that leads nowhere and hides nothing', () => {
    const cases: [string, string][] = [
      ['a.txt', `filename="a.txt"; filename*=UTF-8''a.txt`],
      ['../../etc/passwd', `filename="_.._etc_passwd"; filename*=UTF-8''_.._etc_passwd`],
      ['a"\r\nSet-Cookie: b', `filename="a___Set-Cookie_ b"; filename*=UTF-8''a___Set-Cookie_%20b`],
      ['cod\u202etxt.exe', `filename="cod_txt.exe"; filename*=UTF-8''cod_txt.exe`],
      ['\ud800', `filename="_"; filename*=UTF-8''_`],
      ['...', `filename="download"; filename*=UTF-8''download`],
      ["it's (1)*.txt", `filename="it_s (1)_.txt"; filename*=UTF-8''it%27s%20%281%29_.txt`],
    ];
    for (const [name, expected] of cases) {
      expect(contentDisposition(name), name).to.equal(`attachment; ${expected}`);
    }
    const long = contentDisposition(`${'é'.repeat(100_000)}.pdf`);
    expect(long.length).to.be.lessThan(1500);
    expect(long).to.match(/\.pdf$/);
  });
});
