import { expect } from 'chai';
import { verdictOf } from '../../../../src/features/backup/image-check.ts';
import { judgeTestRestore } from '../../../../src/features/backup/test-restore.ts';

const file = { path: 'disk/1:/etc/hosts', sizeBytes: 12, sha256: 'a'.repeat(64) };

describe('the verdict of a test restore', () => {
  it('of images goes by what was read of them', () => {
    expect(verdictOf({ sample: [file], failed: [] }, 1)).to.deep.include({
      status: 'passed',
      filesVerified: 1,
    });
    expect(verdictOf({ sample: [file], failed: ['x'] }, 1)).to.include({ status: 'partial', filesFailed: 1 });
    expect(verdictOf({ sample: [], failed: ['x'] }, 1)).to.include({ status: 'failed' });
    expect(verdictOf({ sample: [], failed: [] }, 1), 'nothing was read').to.include({
      status: 'failed',
      errorCode: 'SOURCE_UNREADABLE',
    });
  });

  it('says what it has not looked at, and if more was wrong than it lists', () => {
    const { details } = verdictOf({ sample: [file], failed: Array.from({ length: 21 }, String) }, 9);
    expect(details).to.deep.include({ errorsAreCut: true, machines: { checked: 5, of: 9 } });
    expect(details?.errors).to.have.length(20);
  });

  it('without a sample is no pass', () => {
    const end = { status: 'succeeded' as const, error: null, output: { files: [], seconds: 1 } };
    expect(judgeTestRestore({ details: {} }, end).status).to.equal('failed');
  });
});
