import { expect } from 'chai';
import { clock } from '../../../../src/clock.ts';
import { liveLogs } from '../../../../src/features/logs/live-logs.service.ts';
import type { DeviceHub } from '../../../../src/hub/index.ts';
import type { DetachedContext } from '../../../../src/platform/context.ts';
import type { AppError } from '../../../../src/platform/errors.ts';

/** Thirty seconds are long for a test, so the hub here says at once what it would say then. */
describe('a live query that runs out of time', () => {
  const entry = { recordId: 1 };
  const hub = {
    async query(_deviceId: string, question: { onRows?: (rows: unknown[]) => void }) {
      question.onRows?.([entry]);
      return { ok: false, reason: 'timeout' };
    },
  } as unknown as DeviceHub;
  const reads = { record: () => {} };
  const ctx = {
    arrivedAt: clock.monotonic(),
    withTenant: async () => undefined,
  } as unknown as DetachedContext;

  it('answers 504 with the entries that came', async () => {
    const query = { page: 1, limit: 50 };
    const error: AppError = await liveLogs({ hub, reads })
      .entries(ctx, 'device', 'System', query, new AbortController().signal)
      .then(
        () => expect.fail('it answered'),
        (caught: AppError) => caught,
      );
    expect([error.status, error.wireCode]).to.deep.equal([504, 'DEVICE_TIMEOUT']);
    expect(error.details).to.deep.equal({ partial: [entry] });
  });

  it('counts from the arrival of the request, however long the database was waited for', async () => {
    const given: (number | undefined)[] = [];
    const asked = {
      async query(_deviceId: string, { timeoutMs }: { timeoutMs?: number }) {
        given.push(timeoutMs);
        return { ok: false, reason: 'timeout' };
      },
    } as unknown as DeviceHub;
    const arrivedAt = clock.monotonic() - 20_000;
    await liveLogs({ hub: asked, reads })
      .list({ ...ctx, arrivedAt }, 'device', new AbortController().signal)
      .catch(() => undefined);
    expect(given).to.have.length(1);
    expect(given[0]).to.be.within(1, 10_000);
  });

  it('answers 503 if the database has not answered by then, and asks no device', async () => {
    const waiting = { arrivedAt: clock.monotonic() - 29_950, withTenant: () => new Promise(() => {}) };
    const error: AppError = await liveLogs({ hub, reads })
      .list(waiting as unknown as DetachedContext, 'device', new AbortController().signal)
      .then(
        () => expect.fail('it answered'),
        (caught: AppError) => caught,
      );
    expect([error.status, error.code]).to.deep.equal([503, 'unavailable']);
  });
});
