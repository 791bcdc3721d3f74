import { expect } from 'chai';
import type { Socket } from 'socket.io-client';
import { channelOver } from '../../../../src/agent/core/answer-channel.ts';
import { clock } from '../../../../src/clock.ts';
import { useTestClock } from '../../../support/use-test-clock.ts';

const PROGRESS = { id: 'x', seq: 0, phase: 'running' };

/** A connection on which the hub acknowledges one message after the other with these. */
function connection(answers: unknown[]) {
  const sentAt: number[] = [];
  const socket = {
    connected: true,
    timeout: () => socket,
    async emitWithAck() {
      sentAt.push(clock.monotonic());
      return answers.shift();
    },
  };
  return { socket: socket as unknown as Socket, sentAt };
}

describe('the channel for the agent’s messages about commands', () => {
  const testClock = useTestClock({ isRunning: false });

  it('waits as long as the hub asks before it sends a message again', async () => {
    const busy = { ok: false, error: { code: 'DEVICE_BUSY', message: 'x', retryAfterMs: 900 } };
    const { socket, sentAt } = connection([busy, { ok: true }]);
    const delivered = channelOver(socket, 1000).answers.progress(PROGRESS);
    await testClock.advance(10_000);
    await delivered;
    expect((sentAt[1] ?? 0) - (sentAt[0] ?? 0)).to.equal(900);
    expect(sentAt).to.have.length(2);
  });

  it('drops a message that the hub refuses for another reason', async () => {
    const { socket } = connection([{ ok: false, error: { code: 'VALIDATION_FAILED', message: 'x' } }]);
    let failure: unknown;
    await channelOver(socket, 1000)
      .answers.progress(PROGRESS)
      .catch((error: unknown) => (failure = error));
    expect(String(failure)).to.include('VALIDATION_FAILED');
  });
});
