import { expect } from 'chai';
import { tmpdir } from 'node:os';
import { startOperatorProgram } from '../../support/muster-program.ts';
import { environmentOf } from '../../support/run-muster.ts';
import { createTestDatabase, type TestDatabase } from '../../support/test-postgres.ts';

/** What it does to secrets is tested in the process of `test/features/auth/mfa.test.ts`. */
describe('the program rotate-secrets', function () {
  this.timeout(120_000);
  let database: TestDatabase;
  before(async () => {
    database = await createTestDatabase();
  });
  after(() => database.drop());

  it('names each column of secrets, and fails with 1 if the configuration is wrong', async () => {
    const env = environmentOf(database, tmpdir());
    const rotated = await startOperatorProgram('src/cli/rotate-secrets.ts', [], { env }).ended;
    expect([rotated.code, rotated.err]).to.deep.equal([0, '']);
    expect(rotated.out).to.contain('user_mfa.secret: 0 sealed, 0 sealed again\n');
    const wrong = { ...env, PORT: 'x' };
    const refused = await startOperatorProgram('src/cli/rotate-secrets.ts', [], { env: wrong }).ended;
    expect([refused.code, refused.out]).to.deep.equal([1, '']);
    expect(refused.err).to.match(
      /^The secrets were not rotated\. The configuration is invalid:\n {2}- PORT /,
    );
  });
});
