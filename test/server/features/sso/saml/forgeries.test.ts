import { expect } from 'chai';
import { answerXml, type Deviation, encoded } from '../../../../support/saml-forge.ts';
import { query } from '../../../../support/sso/sso-support.ts';
import { FORGERIES } from './forgeries.ts';
import { type Browser, type SamlServer, startSamlServer } from './saml-server.ts';

const answer = ({ asked }: Browser, deviation?: Deviation) => encoded(answerXml(asked, deviation));

describe('a forged or broken answer of a SAML identity provider', () => {
  let server: SamlServer;
  let signedIn = 0;
  let refused = 0;

  before(async () => {
    server = await startSamlServer();
  });
  after(() => server.close());

  for (const [reason, forgeries] of Object.entries(FORGERIES)) {
    describe(`is refused as ${reason} for`, () => {
      const theSameWithoutTheFault = async () => {
        const good = await server.begin();
        expect(await good.answered(answer(good))).to.equal(undefined);
        signedIn++;
      };
      before(theSameWithoutTheFault);
      after(theSameWithoutTheFault);

      for (const [title, deviation] of Object.entries(forgeries)) {
        it(title, async () => {
          const forged = await server.begin();
          expect(await forged.answered(answer(forged, deviation))).to.equal(reason);
          refused++;
        });
      }
    });
  }

  describe('in all of these cases', () => {
    it('opens no session, and is recorded with its reason', async () => {
      const { app, providerId } = server;
      const sessions = await query(app, 'select from sessions where sso_provider_id = ?', [providerId]);
      expect(sessions).to.have.length(signedIn);
      const people = await query(
        app,
        `select email from users where email like '%@example.com' and email not like 'person-%'`,
      );
      expect(people).to.deep.equal([{ email: 'ada@example.com' }]);
      await app.server.chainWriter.flush();
      const entries = await query<{ reason: string }>(
        app,
        `select details->>'reason' as reason from audit_logs where action = 'user.login.failed' and resource_id = ?`,
        [providerId],
      );
      expect(entries).to.have.length(refused);
      expect(new Set(entries.map((entry) => entry.reason))).to.deep.equal(new Set(Object.keys(FORGERIES)));
      expect(app.log.filter(({ level }) => level === 'error')).to.deep.equal([]);
    });
  });
});
