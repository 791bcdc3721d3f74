import { expect } from 'chai';
import { faultsOfExcludes, patternFault } from '../../../../src/features/backup/source.schema.ts';

describe('the pattern of an exclude', () => {
  // What restic 0.14 has said of each.
  const REFUSED = [
    '[abc',
    'a[',
    '[]',
    '[]a]',
    '[^]',
    'foo\\',
    '[a/b]',
    '[a-]',
    '[-a]',
    '![x',
    '**[',
    'C:\\Temp\\',
    '[a\\',
    '//[',
    '[^',
    '[a-\\',
    '[a-z',
  ];
  const TAKEN = [
    '\\[x',
    '[\\]]',
    'a]',
    '/x/**/[a-z]',
    '!',
    '[z-a]',
    '[!a]',
    '[[]',
    'ä[é-ü]',
    '*.tmp',
    '[^a-cx]',
    '[\\--a]',
    '😀[😀-😁]',
    '[a]-]',
  ];

  it('is refused as restic would refuse the backup', () => {
    for (const pattern of REFUSED) {
      expect(patternFault(pattern, { isWindows: false }), pattern).to.be.a('string');
    }
    for (const pattern of TAKEN) {
      expect(patternFault(pattern, { isWindows: false }), pattern).to.equal(undefined);
    }
  });

  it('has other rules on Windows, where a backslash separates', () => {
    for (const pattern of ['C:\\Temp\\', 'foo\\', '*.tmp']) {
      expect(patternFault(pattern, { isWindows: true }), pattern).to.equal(undefined);
    }
    for (const pattern of ['C:\\[x', '[\\]]', '[a\\b]']) {
      expect(patternFault(pattern, { isWindows: true }), pattern).to.be.a('string');
    }
  });

  it('is judged by the systems of the configuration, all of them at once', () => {
    const faults = (paths: Parameters<typeof faultsOfExcludes>[0]['paths'], ...excludes: string[]) =>
      [...faultsOfExcludes({ paths, excludes })].map(({ at }) => at);
    expect(faults({ windows: ['C:\\'] }, 'C:\\Temp\\', '[x')).to.deep.equal([1]);
    expect(faults({ windows: ['C:\\'], linux: ['/'] }, 'C:\\Temp\\', '[x', '*.tmp')).to.deep.equal([0, 1]);
    const long = Array.from({ length: 16 }, () => 'x'.repeat(1000));
    expect(faults({ linux: ['/'] }, ...long)).to.deep.equal([undefined]);
  });
});
