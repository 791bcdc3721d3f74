import { expect } from 'chai';
import {
  afterQuery,
  ANSWER_MAX_BYTES,
  ASKS_MAX,
  EntryCollector,
  spreadMs,
} from '../../../../src/features/event-log-questions/asking.ts';
import type { LogEntry } from '../../../../src/protocol/index.ts';

const entry = (message: string): LogEntry => ({
  recordId: 1,
  timeCreated: '2026-11-20T10:00:00.000Z',
  level: 'error',
  source: 'disk',
  eventId: 7,
  message,
  category: 'System',
  user: null,
  computer: 'DESK-1',
});

describe('asking a device a standing question', () => {
  it('keeps entries up to a size, counts the others, and stores what Postgres takes', () => {
    const collected = new EntryCollector();
    collected.add([
      entry('x'.repeat(ANSWER_MAX_BYTES)),
      entry('a\0b'),
      entry('y'.repeat(ANSWER_MAX_BYTES / 2)),
    ]);
    collected.add([entry('z'.repeat(ANSWER_MAX_BYTES / 2))]);
    expect(collected.entries).to.have.length(2);
    expect(collected.leftOut).to.equal(2);
    expect(collected.bytes).to.be.at.most(ANSWER_MAX_BYTES);
    expect(collected.entries[0]?.message).not.to.contain('\0');
  });

  it('does not count a device that was not asked', () => {
    for (const reason of ['offline', 'busy', 'unavailable'] as const) {
      expect(afterQuery({ ok: false, reason }, new EntryCollector(), ASKS_MAX)).to.deep.equal({
        move: 'not_asked',
      });
    }
  });

  it('asks a device again that gave no answer, some times', () => {
    for (const [reason, code] of [
      ['timeout', 'TIMED_OUT'],
      ['disconnected', 'DISCONNECTED'],
      ['node_lost', 'DISCONNECTED'],
    ] as const) {
      const after = (asks: number) => afterQuery({ ok: false, reason }, new EntryCollector(), asks);
      expect(after(ASKS_MAX - 1), reason).to.deep.equal({ move: 'again' });
      expect(after(ASKS_MAX), reason).to.have.nested.property('failure.code', code);
    }
  });

  it('has failed at once with the reason of the device, cut to what is stored', () => {
    const failed = afterQuery(
      { ok: false, reason: 'agent', code: 'X'.repeat(100), message: 'm\0'.repeat(3000) },
      new EntryCollector(),
      1,
    );
    if (failed.move !== 'failed') expect.fail(failed.move);
    expect(failed.failure.code).to.have.length.at.most(64);
    expect(failed.failure.message).to.have.length.at.most(2000);
    for (const reason of ['capability_missing', 'cancelled'] as const) {
      expect(afterQuery({ ok: false, reason }, new EntryCollector(), 1).move).to.equal('failed');
    }
  });

  it('spreads devices over a time, each at the same place of it', () => {
    const ids = ['00000000', '80000000', 'ffffffff'].map((end) => `01900000-0000-7000-8000-0000${end}`);
    expect(ids.map((id) => spreadMs(id, 10_000))).to.deep.equal([0, 5000, 9999]);
  });
});
