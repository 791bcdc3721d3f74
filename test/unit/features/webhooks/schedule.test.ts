import { expect } from 'chai';
import fc from 'fast-check';
import {
  ATTEMPTS_MAX,
  FAILURES_BEFORE_PAUSE,
  pauseMs,
  retryAfterMs,
  retryWaitMs,
} from '../../../../src/features/webhooks/post.ts';
import { signedHeaders } from '../../../../src/features/webhooks/signing.ts';

const HOUR = 3_600_000;

describe('the schedule of deliveries', () => {
  it('waits longer after each attempt, for about a day, and then ends', () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: 1, noNaN: true }), (random) => {
        const waits = Array.from({ length: ATTEMPTS_MAX - 1 }, (_, n) => retryWaitMs(n + 1, random) ?? 0);
        expect(waits).to.deep.equal([...waits].sort((a, b) => a - b));
        const whole = waits.reduce((sum, wait) => sum + wait, 0);
        expect(whole).to.be.within(24 * HOUR, 32 * HOUR);
        expect(retryWaitMs(ATTEMPTS_MAX, random)).to.equal(undefined);
      }),
    );
  });

  it('leaves a receiver alone after failures in a row, for five minutes at most', () => {
    for (let failures = 0; failures < FAILURES_BEFORE_PAUSE; failures++) {
      expect(pauseMs(failures)).to.equal(0);
    }
    fc.assert(
      fc.property(fc.integer({ min: FAILURES_BEFORE_PAUSE, max: 2 ** 31 - 2 }), (failures) => {
        expect(pauseMs(failures)).to.be.within(5000, 300_000);
        expect(pauseMs(failures + 1)).to.be.at.least(pauseMs(failures));
      }),
    );
  });

  it('reads Retry-After in both forms, and nothing else', () => {
    const now = new Date('2026-11-24T08:00:00Z');
    expect(retryAfterMs('120', now)).to.equal(120_000);
    expect(retryAfterMs('Tue, 24 Nov 2026 08:02:00 GMT', now)).to.equal(120_000);
    expect(retryAfterMs('999999999', now)).to.equal(6 * HOUR);
    for (const text of [null, '', '-5', '0', 'soon', 'Tue, 24 Nov 2026 07:00:00 GMT', '9'.repeat(400)]) {
      expect(retryAfterMs(text, now), String(text)).to.equal(undefined);
    }
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(retryAfterMs(text, now) ?? 1).to.be.within(1, 6 * HOUR);
      }),
    );
  });

  it('signs the example of the Standard Webhooks specification as it says', () => {
    const headers = signedHeaders(['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'], {
      id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      at: new Date(1_614_265_330_000),
      body: '{"test": 2432232314}',
    });
    expect(headers['webhook-signature']).to.equal('v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=');
  });
});
