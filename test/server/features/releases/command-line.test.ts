import { expect } from 'chai';
import { randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { environmentOf, runMuster } from '../../../support/run-muster.ts';
import {
  createReleaseBench,
  download,
  query,
  type ReleaseBench,
  sha256,
} from '../../../support/releases/release-support.ts';

const PLATFORM = ['--component', 'agent', '--os', 'linux', '--architecture', 'x64'];

describe('muster releases', function () {
  this.timeout(120_000);
  let bench: ReleaseBench;
  before(async () => {
    bench = await createReleaseBench();
  });
  after(() => bench.close());

  const muster = (...args: string[]) => {
    const env = { ...environmentOf(bench.app.database, bench.dataDir), AGENT_AUTO_PROMOTE: 'false' };
    return runMuster(['releases', ...args], { env });
  };

  it('refuses a file that is another version than the one that is named', async () => {
    const file = path.join(bench.dataDir, 'old.cjs');
    await writeFile(file, `run();\n/* muster-program agent 0.2.0 */\n`);
    expect(await muster('add', file, '--version', '0.3.0', ...PLATFORM)).to.deep.equal({
      code: 2,
      out: '',
      err: 'The file is version 0.2.0 of the agent, and not 0.3.0. It was not stored.\n',
    });
    expect((await muster('list')).out).to.match(/^There are no releases\./);
  });

  it('adds a file that the server serves, promotes it, lists it, and is audited', async () => {
    expect((await muster('list')).out).to.match(/^There are no releases\./);
    const bytes = randomBytes(4000);
    await mkdir(path.join(bench.dataDir, 'build'));
    const file = path.join(bench.dataDir, 'build', 'agent of linux');
    await writeFile(file, bytes);

    const added = await muster(
      'add',
      file,
      '--version',
      '1.0.0',
      ...PLATFORM,
      '--sha256',
      sha256(bytes).toUpperCase(),
    );
    expect(added, added.err).to.include({ code: 0, err: '' });
    expect(added.out).to.match(
      /^agent 1\.0\.0 for linux x64 is registered: 4000 bytes, SHA-256 [0-9a-f]{64}, signed by key /,
    );
    expect((await muster('add', file, '--version', '1.0.0', ...PLATFORM)).out).to.include(
      'Nothing was changed.',
    );
    const answer = await download(bench, '1.0.0');
    expect(Buffer.from(await answer.arrayBuffer()).equals(bytes)).to.equal(true);

    const promoted = await muster('promote', '1.0.0');
    expect(promoted, promoted.err).to.deep.equal({
      code: 0,
      out: 'agent for linux x64: devices upgrade to 1.0.0.\n',
      err: '',
    });
    expect((await muster('list')).out).to.equal(
      `* agent 1.0.0  linux x64  local  4000  ${sha256(bytes)}\n* promoted: devices upgrade to it.\n`,
    );

    await bench.app.server.chainWriter.flush();
    const entries = await query(
      bench.app,
      `select action, actor_type, org_id, partner_id, resource_name from audit_logs where action like 'agent_version.%' order by id`,
    );
    const entry = { actor_type: 'system', org_id: null, partner_id: null, resource_name: '1.0.0' };
    expect(entries).to.deep.equal([
      { action: 'agent_version.publish', ...entry },
      { action: 'agent_version.promote', ...entry },
    ]);
  });

  it('replaces the key that signs, which is audited', async () => {
    const { code, out, err } = await muster('rotate-key');
    const [, id, signedBy] =
      /with the key ([0-9a-f-]{36})\. It is signed by ([0-9a-f-]{36}),/.exec(out) ?? [];
    expect(code, err + out).to.equal(0);
    const { body } = await bench.app.call('GET', '/agent-versions/keys');
    expect(body.keys.at(-1)).to.include({ id, signedBy });
    const file = path.join(bench.dataDir, 'after the rotation');
    await writeFile(file, 'after');
    expect((await muster('add', file, '--version', '1.0.2', ...PLATFORM)).out).to.include(
      `signed by key ${id}`,
    );

    expect((await muster('sign')).out).to.equal(`agent 1.0.0 for linux x64 is signed by key ${id}.\n`);

    await bench.app.server.chainWriter.flush();
    const entries = await query(
      bench.app,
      `select actor_type, resource_type, resource_id, details from audit_logs where action = 'release_key.rotate'`,
    );
    expect(entries).to.deep.equal([
      { actor_type: 'system', resource_type: 'release_key', resource_id: id, details: { signedBy } },
    ]);
  });

  it('refuses what is wrong, and says what it is', async () => {
    const file = path.join(bench.dataDir, 'other');
    await writeFile(file, 'other');
    for (const [args, message] of [
      [['add', file, '--version', 'v1.0.1', ...PLATFORM], 'must be a version such as 1.4.0'],
      [['add', file, '--version', '1.0.1', ...PLATFORM.slice(2)], '--component'],
      [['add', file, '--version', '1.0.1', ...PLATFORM, '--sha256', 'a'.repeat(64)], 'It was not stored'],
      [['add', `${file}-none`, '--version', '1.0.1', ...PLATFORM], 'no such file'],
      [['promote', '9.9.9'], 'Version 9.9.9 not found'],
    ] as const) {
      const { code, err } = await muster(...args);
      expect([code, err.includes(message)], `${args.join(' ')}: ${err}`).to.deep.equal([2, true]);
    }
  });
});
