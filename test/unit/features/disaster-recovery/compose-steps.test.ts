import { expect } from 'chai';
import { composeFailover } from '../../../../src/features/disaster-recovery/compose-steps.ts';
import type { RecoveryDevice } from '../../../../src/features/disaster-recovery/plan.schema.ts';

const DEVICE_ID = '01931f2e-0c2d-7a4e-9b1f-5d3c2b1a0f01';
const SNAPSHOT_ID = '01931f2e-0c2d-7a4e-9b1f-5d3c2b1a0f02';

describe('a failover of files', () => {
  const composed = (restore: { targetPath?: string; selectedPaths?: string[] }, pathsAreCut?: true) => {
    const entry: RecoveryDevice = {
      deviceId: DEVICE_ID,
      checks: [],
      restore: { type: 'files', overwrite: 'never', ...restore },
    };
    const snapshot = {
      id: SNAPSHOT_ID,
      configId: null,
      paths: ['/srv/a', '/srv/b'],
      takenAt: new Date(0),
      machines: null,
      ...(pathsAreCut === undefined ? {} : { pathsAreCut }),
    };
    return composeFailover({
      entry,
      deviceName: 'files-1',
      sourceOs: 'linux',
      targetOs: 'linux',
      snapshot,
      scripts: [],
    });
  };
  const specs = (...args: Parameters<typeof composed>) =>
    composed(...args).actions.map(({ spec }) => (spec.does === 'files' ? spec : undefined));

  it('restores each path of the snapshot to its place', () => {
    expect(specs({}).map((spec) => [spec?.fromPath, spec?.targetPath, spec?.refusal])).to.deep.equal([
      ['/srv/a', '/srv/a', null],
      ['/srv/b', '/srv/b', null],
    ]);
  });

  it('is refused if the server does not know all paths of the snapshot', () => {
    const [spec, ...others] = specs({}, true);
    expect(others).to.deep.equal([]);
    expect(spec?.refusal?.code).to.equal('PATHS_NOT_KNOWN');
    expect(spec?.refusal?.message).to.match(/targetPath/);
  });

  it('restores everything below a folder, also what the server does not list', () => {
    const { actions, places } = composed({ targetPath: '/restored/' }, true);
    expect(actions).to.have.length(1);
    expect(specs({ targetPath: '/restored/' }, true)[0]).to.deep.include({
      selectedPaths: null,
      targetPath: '/restored/',
      refusal: null,
    });
    expect(places, 'the failback takes the whole folder').to.deep.equal([
      { source: '/', target: '/restored' },
    ]);
  });

  it('restores selected paths of such a snapshot to their places', () => {
    expect(specs({ selectedPaths: ['/srv/z'] }, true)).to.have.length(1);
    expect(specs({ selectedPaths: ['/srv/z'] }, true)[0]).to.deep.include({
      fromPath: '/srv/z',
      refusal: null,
    });
  });
});
