import { expect } from 'chai';
import { sourceChecks } from '../../../../src/features/backup/test-config.ts';

describe('the sources of a configuration that is tested', () => {
  const codes = (linux: string[], excludes: string[] = []) =>
    sourceChecks({ kind: 'files', paths: { linux }, excludes }).map(({ ok, code }) => code ?? ok);

  it('are refused if nothing would be backed up of them', () => {
    expect(codes(['/home', '/proc/self/task', '/sys', '/run/'])).to.deep.equal(
      Array.from({ length: 3 }, () => 'SOURCE_VIRTUAL'),
    );
    expect(codes(['/home'], ['*.tmp', '*'])).to.deep.equal(['EVERYTHING_EXCLUDED']);
    expect(codes(['/home'], ['/**'])).to.deep.equal(['EVERYTHING_EXCLUDED']);
    expect(codes(['/home'], ['/*', '!/home'])).to.deep.equal([true]);
    // A configuration of before the rule.
    expect(codes(['/home'], ['[abc'])).to.deep.equal(['EXCLUDE_INVALID']);
  });

  it('say what is left out of them', () => {
    expect(sourceChecks({ kind: 'files', paths: { linux: ['/'] } })[0]?.message).to.contain('/proc');
    expect(codes(['/process', '/runs', '/system'])).to.deep.equal([true]);
    expect(sourceChecks({ kind: 'files', paths: { linux: ['/run/media/ada'] } })[0]?.message).to.contain(
      'disk',
    );
    expect(sourceChecks({ kind: 'files', paths: { windows: ['C:\\'] } })).to.deep.equal([
      { name: 'sources', ok: true },
    ]);
    expect(sourceChecks({ kind: 'image', disks: 'all' })).to.deep.equal([]);
  });
});
