import { expect } from 'chai';
import { CachedAgentCredentials } from '../../../../src/features/devices/index.ts';
import { Admission } from '../../../../src/hub/wire/admission.ts';
import { buildDevice, buildTenant, signIn, type EnrolledDevice } from '../../../support/factories.ts';
import { connectDevice, type Refused } from '../../../support/fake-device.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';

describe('admission', () => {
  it('admits a burst, then a fixed rate, and gives each refused agent its own time to return', () => {
    const admission = new Admission({ perSecond: 10, burst: 5 }, 0);
    const first = Array.from({ length: 8 }, () => admission.refusal(0));
    expect(first.slice(0, 5)).to.deep.equal(Array(5).fill(undefined));
    expect(first.slice(5).map((refusal) => refusal?.retryAfterMs)).to.deep.equal([1350, 1450, 1550]);
    expect(first[5]?.code).to.equal('BUSY');
    // Meanwhile there is room for newcomers, after which the next moment is behind those that were given.
    const newcomers = Array.from({ length: 6 }, () => admission.refusal(1000));
    expect(newcomers.slice(0, 5)).to.deep.equal(Array(5).fill(undefined));
    expect(newcomers[5]?.retryAfterMs).to.equal(1350);
    expect(admission.refusal(60_000)).to.equal(undefined);
  });

  it('admits an agent that returns at its time, however many were refused since', () => {
    for (const count of [1, 10, 100, 1000]) {
      const admission = new Admission({ perSecond: 10, burst: 5 }, 0);
      const moments = Array.from({ length: count + 5 }, () => admission.refusal(0)?.retryAfterMs ?? 0);
      for (const moment of moments.slice(5)) expect(admission.refusal(moment)).to.equal(undefined);
    }
  });

  it('admits fewer while it refuses many, but never none', () => {
    const admission = new Admission({ perSecond: 500, burst: 100 }, 0);
    const letIn = (from: number, knocksAMs: number) => {
      let count = 0;
      for (let knock = 0; knock < 1000 * knocksAMs; knock++) {
        if (admission.refusal(from + knock / knocksAMs) === undefined) count++;
      }
      return count;
    };
    expect(letIn(0, 10)).to.be.within(190, 210);
    expect(letIn(1000, 10)).to.be.within(95, 105);
    // Nobody is refused, once what is owed is paid.
    letIn(2000, 0.5);
    expect(letIn(4000, 0.5)).to.equal(500);
  });

  it('falls while the database does not keep up, down to a twentieth, and rises again slowly', () => {
    const admission = new Admission({ perSecond: 100, burst: 10 }, 0);
    let now = 0;
    const after = (seconds: number, lateMs: number) => {
      for (let second = 0; second < seconds; second++) admission.follow(lateMs, (now += 1000));
      return Math.round(admission.perSecond);
    };
    expect([after(3, 2500), after(1, 5000), after(2, 5000), after(60, 60_000)]).to.deep.equal([
      100, 67, 30, 5,
    ]);
    const admitted = () => {
      let count = 0;
      for (let end = now + 10_000; now < end; now += 10) if (admission.refusal(now) === undefined) count++;
      return count;
    };
    // The refusals cost a part of it.
    expect(admitted()).to.be.within(10, 60);
    expect([after(1, 0), after(9, 0), after(60, 0)]).to.deep.equal([10, 55, 100]);
  });

  it('is not used up by connections without a valid token', () => {
    const admission = new Admission({ perSecond: 1, burst: 2 }, 0);
    for (let n = 0; n < 1000; n++) {
      expect(admission.refusal(0)).to.equal(undefined);
      admission.refund();
    }
    expect([admission.refusal(0), admission.refusal(0)]).to.deep.equal([undefined, undefined]);
    expect(admission.refusal(0)?.code).to.equal('BUSY');
  });

  // At the second time, adding the limit to the time and subtracting the time again gives more than the limit.
  for (const now of [0, 142_278.015_889_846]) {
    it(`never asks for a wait longer than two minutes, ${Math.round(now)} ms after the start`, () => {
      const admission = new Admission({ perSecond: 1, burst: 0 }, now);
      const delays = Array.from({ length: 1000 }, () => admission.refusal(now)?.retryAfterMs ?? 0);
      expect(Math.max(...delays)).to.equal(120_000);
    });
  }

  describe('of a fleet that reconnects at once', () => {
    let app: TestApp;
    let fleet: EnrolledDevice[];
    let email: string;
    before(async function () {
      app = await createTestApp({ admission: { perSecond: 1, burst: 40 } });
      const tenant = await buildTenant(app);
      email = tenant.admin.email;
      fleet = [];
      for (let n = 0; n < 60; n++) fleet.push(await buildDevice(app, tenant.orgId));
    });
    after(async () => app.close());

    it('gives refused agents a time to return, while people go on working', async () => {
      const outcomes = await Promise.all(
        fleet.map(({ token }) =>
          connectDevice(app, token).then(
            (agent) => {
              agent.close();
              return undefined;
            },
            (error: unknown) => (error as Refused).refusal,
          ),
        ),
      );
      const refused = outcomes.filter((outcome) => outcome !== undefined);
      // On a slow machine they take longer to arrive, and some more are let in.
      expect(refused.length).to.be.within(1, 20);
      expect(new Set(refused.map(({ code }) => code))).to.deep.equal(new Set(['BUSY']));
      const delays = refused.map(({ retryAfterMs = 0 }) => retryAfterMs);
      expect(Math.min(...delays)).to.be.greaterThan(0);
      expect(await signIn(app, email)).to.be.a('string');
    });

    it('queries the database once for all agents that connect together', async () => {
      const { hubPool } = app.server.database;
      let looks = 0;
      hubPool.on('query', ({ sql }: { sql: string }) => {
        if (sql.includes('from agent_credentials')) looks += 1;
      });
      const credentials = new CachedAgentCredentials(hubPool);
      const verdicts = await Promise.all(fleet.map(({ token }) => credentials.verify(token)));
      expect(verdicts.map((verdict) => verdict.ok && verdict.identity.deviceId)).to.deep.equal(
        fleet.map(({ deviceId }) => deviceId),
      );
      expect(looks).to.equal(1);
      await Promise.all(fleet.map(({ token }) => credentials.verify(token)));
      expect(looks).to.equal(1);
    });
  });
});
