import { expect } from 'chai';
import { execFile } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { finished } from 'node:stream/promises';
import { promisify } from 'node:util';
import { lineWriter } from '../../../src/cli/audit/installation-audit.ts';
import { exportBundle } from '../../../src/features/audit/export.service.ts';
import { type BuiltPrograms, BUILT_PROGRAMS_VARIABLE, buildPrograms } from '../../support/built-programs.ts';
import { type AuditBench, createAuditBench } from '../../support/audit/audit-support.ts';

const run = promisify(execFile);
/** More than are checked without threads. */
const ENTRIES = 25_000;

/** What `npm run build` makes, which is what the image runs: JavaScript, with nothing that starts TypeScript. */
describe('the program as it is built', function () {
  this.timeout(120_000);
  let folder: string;
  let built: BuiltPrograms | undefined;
  let bench: AuditBench;

  before(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'muster-bundle-'));
    if (process.env[BUILT_PROGRAMS_VARIABLE] === undefined) built = await buildPrograms();
    bench = await createAuditBench();
  });
  after(async () => {
    await bench?.close();
    await built?.remove();
    await rm(folder, { recursive: true, force: true });
  });

  const programs = () => built?.folder ?? process.env[BUILT_PROGRAMS_VARIABLE] ?? '';
  const muster = (...args: string[]) =>
    run(process.execPath, [path.join(programs(), 'dist/src/cli/muster.js'), ...args]).then(
      ({ stdout }) => ({ code: 0, said: stdout }),
      ({ code, stdout, stderr }: { code: number; stdout: string; stderr: string }) => ({
        code,
        said: stdout + stderr,
      }),
    );

  it('checks a long chain with threads of its own', async () => {
    await bench.add(ENTRIES);
    await bench.sealer.flush();
    const bundle = path.join(folder, 'bundle.jsonl');
    const output = createWriteStream(bundle);
    await exportBundle(bench.db, bench.orgId, lineWriter(output));
    output.end();
    await finished(output);

    const whole = await muster('audit', 'verify', '--bundle', bundle);
    expect(whole.said).to.contain(String(ENTRIES));
    expect(whole.code).to.equal(0);

    const lines = (await readFile(bundle, 'utf8')).split('\n');
    const at = lines.length - 1000;
    lines[at] = lines[at]!.replace('"result":"success"', '"result":"failure"');
    await writeFile(bundle, lines.join('\n'));
    const altered = await muster('audit', 'verify', '--bundle', bundle);
    expect(altered.code).to.equal(1);
    expect(altered.said).to.contain('its content does not match its checksum');
  });
});
