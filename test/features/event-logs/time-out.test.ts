import { expect } from 'chai';
import { liveLogs } from '../../../src/features/event-logs/index.ts';
import type { DeviceHub } from '../../../src/hub/index.ts';
import type { DetachedContext } from '../../../src/platform/context.ts';
import type { AppError } from '../../../src/platform/errors.ts';

/** Thirty seconds are long for a test, so the hub here says at once what it would say then. */
describe('a live query that runs out of time', () => {
  const entry = { recordId: 1 };
  const hub = {
    async ask(_deviceId: string, question: { onRows?: (rows: unknown[]) => void }) {
      question.onRows?.([entry]);
      return { ok: false, reason: 'timeout' };
    },
  } as unknown as DeviceHub;
  const ctx = { withTenant: async () => undefined } as unknown as DetachedContext;

  it('answers 504 with the entries that came', async () => {
    const query = { page: 1, limit: 50 };
    const error: AppError = await liveLogs({ hub, reads: { record: async () => {} } })
      .entries(ctx, 'device', 'System', query, new AbortController().signal)
      .then(
        () => expect.fail('it answered'),
        (caught: AppError) => caught,
      );
    expect([error.status, error.wireCode]).to.deep.equal([504, 'DEVICE_TIMEOUT']);
    expect(error.details).to.deep.equal({ partial: [entry] });
  });
});
