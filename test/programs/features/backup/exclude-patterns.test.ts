import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import fc from 'fast-check';
import { patternFault } from '../../../../src/features/backup/source.schema.ts';
import { needsRestic, resticFor } from '../../../support/restic.ts';

describe('the patterns of excludes', function () {
  this.timeout(30_000);
  before(function () {
    needsRestic(this);
  });

  it('are refused if restic refuses them, and others are not', async () => {
    const folder = await mkdtemp(path.join(tmpdir(), 'excludes-'));
    const restic = resticFor(path.join(folder, 'repository'), path.join(folder, 'cache'));
    await restic.ok('init');
    const characters = fc.constantFrom(...Array.from('[]^-\\*?!/abé😀'));
    const patterns = [
      ...new Set(fc.sample(fc.string({ unit: characters, minLength: 1, maxLength: 8 }), 3000)),
    ];
    // One that is malformed keeps restic from reading anything, and it lists all that are.
    const excludes = [...patterns, '[malformed'].map((each) => `--exclude=${each}`);
    const { stderr } = await restic.run('backup', ...excludes, folder);
    const lines = new Set(stderr.split('\n'));
    expect(lines).to.include('[malformed');
    const ours = patterns.filter((each) => patternFault(each, { isWindows: false }) !== undefined);
    expect(ours.length).to.be.within(100, patterns.length - 100);
    const theirs = patterns.filter((each) => lines.has(each));
    expect(theirs.filter((each) => !ours.includes(each))).to.deep.equal([]);
    // What is behind a * is looked at only when a name has come so far.
    const early = (each: string) => !each.includes('*');
    expect(ours.filter((each) => early(each) && !theirs.includes(each))).to.deep.equal([]);
  });
});
