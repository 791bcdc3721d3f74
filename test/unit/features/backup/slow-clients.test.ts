import { expect } from 'chai';
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { clock } from '../../../../src/clock.ts';
import { bodyOf } from '../../../../src/features/backup-store/upload.ts';
import { useTestClock } from '../../../support/use-test-clock.ts';

describe('a client that sends an object', () => {
  const testClock = useTestClock({ isRunning: false });
  const settle = () => new Promise((resolve) => setImmediate(resolve));

  /** Sends so many bytes every ten seconds, for five minutes. Returns how many were taken. */
  async function send(bytes: number, diskMs = 0): Promise<{ taken: number; isCut: boolean }> {
    const request = new Readable({ read: () => {} });
    let taken = 0;
    const until = new Date(clock.now() + 3_600_000);
    const reading = (async () => {
      for await (const piece of bodyOf(request as IncomingMessage, { idleMs: 60_000, until })) {
        taken += piece.length;
        if (diskMs > 0) await clock.sleep(diskMs);
      }
    })().catch(() => {});
    for (let seconds = 0; seconds < 300 && !request.destroyed; seconds += 10) {
      request.push(Buffer.alloc(bytes));
      await settle();
      await testClock.advance(10_000);
    }
    const isCut = request.destroyed;
    request.destroy();
    await reading;
    return { taken, isCut };
  }

  it('is cut off after a minute if it sends a byte now and then', async () => {
    const { taken, isCut } = await send(1);
    expect(isCut).to.equal(true);
    expect(taken).to.be.below(10);
  });

  it('may be as slow as one of five connections on a line of 64 kbit/s', async () => {
    expect(await send(16_000)).to.deep.equal({ taken: 30 * 16_000, isCut: false });
  });

  it('is not to blame for a slow disk', async () => {
    expect((await send(300, 9900)).isCut).to.equal(false);
  });
});
