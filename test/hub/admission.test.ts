import { expect } from 'chai';
import { CachedAgentCredentials } from '../../src/features/devices/index.ts';
import { Admission } from '../../src/hub/admission.ts';
import { buildDevice, buildTenant, signIn, type EnrolledDevice } from '../support/factories.ts';
import { connectDevice, type Refused } from '../support/fake-device.ts';
import { createTestApp, type TestApp } from '../support/test-app.ts';

describe('admission', () => {
  it('lets in a burst, then so many a second, and gives each of the others a moment of its own', () => {
    const admission = new Admission({ perSecond: 10, burst: 5 }, 0);
    const first = Array.from({ length: 8 }, () => admission.refusal(0));
    expect(first.slice(0, 5)).to.deep.equal(Array(5).fill(undefined));
    expect(first.slice(5).map((refusal) => refusal?.retryAfterMs)).to.deep.equal([100, 200, 300]);
    expect(first[5]?.code).to.equal('BUSY');
    // Whoever comes at their moment finds the door open.
    expect(admission.refusal(100)).to.equal(undefined);
    expect(admission.refusal(150)?.retryAfterMs).to.equal(250);
    expect(admission.refusal(200)).to.equal(undefined);
    expect(admission.refusal(60_000)).to.equal(undefined);
  });

  it('is not used up by those who turn out to be nobody of ours', () => {
    const admission = new Admission({ perSecond: 1, burst: 2 }, 0);
    for (let n = 0; n < 1000; n++) {
      expect(admission.refusal(0)).to.equal(undefined);
      admission.giveBack();
    }
    expect([admission.refusal(0), admission.refusal(0)]).to.deep.equal([undefined, undefined]);
    expect(admission.refusal(0)?.code).to.equal('BUSY');
  });

  it('sends nobody away for longer than two minutes', () => {
    const admission = new Admission({ perSecond: 1, burst: 0 }, 0);
    const delays = Array.from({ length: 1000 }, () => admission.refusal(0)?.retryAfterMs ?? 0);
    expect(Math.max(...delays)).to.equal(120_000);
  });

  describe('of a fleet that comes back at once', () => {
    let app: TestApp;
    let fleet: EnrolledDevice[];
    let email: string;
    before(async function () {
      this.timeout(60_000);
      app = await createTestApp({ admission: { perSecond: 20, burst: 40 } });
      const tenant = await buildTenant(app);
      email = tenant.admin.email;
      fleet = [];
      for (let n = 0; n < 60; n++) fleet.push(await buildDevice(app, tenant.orgId));
    });
    after(async () => app.close());

    it('tells those whom it cannot take yet when to come, and people work meanwhile', async () => {
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

    it('asks the database once for all who come in the same moment', async () => {
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
