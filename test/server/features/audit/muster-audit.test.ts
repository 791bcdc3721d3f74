import { expect } from 'chai';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { environmentOf, runMuster } from '../../../support/run-muster.ts';
import { type AuditBench, createAuditBench } from '../../../support/audit/audit-support.ts';
import { publicPart, signingKeyRows } from '../../../../src/features/audit/signing-keys.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';

const ROOT = fileURLToPath(new URL('../../../..', import.meta.url));

describe('muster audit', () => {
  let bench: AuditBench;
  let folder: string;
  let bundle: string;

  before(async () => {
    bench = await createAuditBench();
    folder = await mkdtemp(path.join(tmpdir(), 'muster-audit-'));
    bundle = path.join(folder, 'bundle.jsonl');
    await bench.add(30);
    await bench.sealer.flush();
    const { data } = { data: (await withSystem(bench.db, 'test', signingKeyRows)).map(publicPart) };
    await writeFile(path.join(folder, 'keys.json'), JSON.stringify({ data }));
  });
  after(async () => {
    await rm(folder, { recursive: true, force: true });
    await bench.close();
  });

  const run = (args: string[], env: Record<string, string> = {}) => runMuster(['audit', ...args], { env });
  const online = (...args: string[]) => run(args, environmentOf(bench.database, folder));

  it('checks the database, all of it or one chain', async () => {
    expect(await online('verify')).to.include({ code: 0, err: '' });
    const one = await online('verify', '--org', bench.orgId, '--json');
    expect(JSON.parse(one.out)).to.include({ ok: true, entries: 30, chains: 1, checkpoints: 1 });
  });

  it('takes a chain to a file, and checks that without a database or any setting', async () => {
    expect(await online('export', '--org', bench.orgId, '--out', bundle)).to.include({ code: 0 });
    const noted = await bench.owner(
      `select org_id, partner_id, actor_type, resource_type, details from audit_outbox where action = 'data.export'`,
    );
    expect(noted).to.deep.equal([
      {
        org_id: bench.orgId,
        partner_id: bench.partnerId,
        actor_type: 'system',
        resource_type: 'audit_logs',
        details: { format: 'bundle', rows: 30 },
      },
    ]);
    const checked = await run(['verify', '--bundle', bundle]);
    expect([checked.code, checked.err]).to.deep.equal([0, '']);
    expect(checked.out).to.match(/^OK +30 entries, 1 checkpoints in 1 chains/m);
    expect(checked.out).to.contain('Compare them');
    const told = await run(['verify', '--bundle', bundle, '--keys', path.join(folder, 'keys.json')]);
    expect(told.out).to.match(/^OK/m).and.not.to.contain('Compare them');
  });

  it('loads nothing for a bundle that needs a database', async () => {
    const graph = await reachable('src/cli/audit/verify-bundle.ts');
    expect(graph.some((file) => file.includes('features/audit/bundle.ts'))).to.equal(true);
    for (const file of graph) expect(file).not.to.match(/platform\/db|^(pg|knex|objection)$/);
  });

  it('names the row that is wrong, and ends with 1', async () => {
    await bench.owner(
      `alter table audit_logs disable trigger user; update audit_logs set actor_email = 'x' where seq = 12;
      alter table audit_logs enable trigger user`,
    );
    const found = await online('verify');
    expect(found.code).to.equal(1);
    expect(found.out).to.match(/^BAD .*entry 12 \([0-9a-f-]{36}\): its content does not match its checksum/m);

    const lines = (await readFile(bundle, 'utf8')).split('\n');
    const altered = path.join(folder, 'altered.jsonl');
    await writeFile(altered, lines.map((line) => line.replace('"n":7', '"n":8')).join('\n'));
    const offline = await run(['verify', '--bundle', altered, '--json']);
    expect(offline.code).to.equal(1);
    expect(JSON.parse(offline.out).faults[0]).to.include({ seq: 7 });
    await bench.owner(
      `alter table audit_logs disable trigger user; update audit_logs set actor_email = 'who@example.com';
      alter table audit_logs enable trigger user`,
    );
  });

  it('misses what an earlier bundle proves', async () => {
    await bench.add(2);
    await bench.sealer.flush();
    expect((await online('verify', '--known', bundle)).code).to.equal(0);
    const later = path.join(folder, 'later.jsonl');
    await online('export', '--org', bench.orgId, '--out', later);
    expect((await run(['verify', '--bundle', later, '--known', bundle])).code).to.equal(0);
    const back = await run(['verify', '--bundle', bundle, '--known', later]);
    expect(back.code).to.equal(1);
    // The two that were added, and before them the one about the first export.
    expect(back.out).to.contain('entries 31 to 33 are missing at the end: the earlier copy');
  });

  it('ends with 2 if nothing could be checked, and says why', async () => {
    const cut = path.join(folder, 'cut.jsonl');
    await writeFile(cut, (await readFile(bundle, 'utf8')).slice(0, -40));
    for (const [args, reason] of [
      [['verify', '--bundle', path.join(folder, 'none')], /ENOENT/],
      [['verify', '--bundle', cut], /is not valid JSON/],
      [['verify', '--bundle', path.join(folder, 'keys.json')], /Line 1 is not part of an audit bundle/],
      [['verify', '--org', 'x'], /Must be the id/],
      [['verify', '--wrong'], /unknown option/],
      [['verify', '--database', 'postgres://nobody@127.0.0.1:1/x'], /Pass --keys/],
    ] as const) {
      const ran = await run([...args]);
      expect([ran.code, ran.out], args.join(' ')).to.deep.equal([2, '']);
      expect(ran.err).to.match(reason);
    }
  });

  it('checks another database with keys that are told', async () => {
    const ran = await run([
      'verify',
      '--database',
      bench.database.ownerUrl,
      '--keys',
      path.join(folder, 'keys.json'),
    ]);
    expect([ran.code, ran.err]).to.deep.equal([0, '']);
  });

  it('replaces the key that signs', async () => {
    expect((await online('rotate-key')).out).to.match(/signed with the key [0-9a-f-]{36}/);
    await bench.add(1);
    await bench.sealer.flush();
    expect((await online('verify')).code).to.equal(0);
    // Of keys that were told earlier the new one is none.
    const ran = await online('verify', '--keys', path.join(folder, 'keys.json'));
    expect([ran.code, /not trusted/.test(ran.out)]).to.deep.equal([1, true]);
  });
}).timeout(120_000);

/** Everything that a file imports, by what stands in the files. */
async function reachable(file: string, found = new Set<string>()): Promise<string[]> {
  if (found.has(file)) return [...found];
  found.add(file);
  if (!file.endsWith('.ts')) return [...found];
  const text = await readFile(path.join(ROOT, file), 'utf8');
  for (const [, types, name = ''] of text.matchAll(/^(?:import|export)( type)? [^;]*?from '([^']+)'/gms)) {
    if (types !== undefined) continue;
    await reachable(name.startsWith('.') ? path.posix.join(path.posix.dirname(file), name) : name, found);
  }
  return [...found];
}
