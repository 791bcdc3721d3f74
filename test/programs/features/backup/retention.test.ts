import { expect } from 'chai';
import { EngineError, listSnapshots } from '../../../../src/engine/index.ts';
import { pruneRepository } from '../../../../src/features/backup/maintenance.work.ts';
import {
  findDuePrune,
  findOutdated,
  markRemoved,
} from '../../../../src/features/backup/retention.service.ts';
import { withRepository } from '../../../../src/features/backup/repository-access.ts';
import { raiseAlert } from '../../../../src/features/alerts/index.ts';
import { needsRestic } from '../../../support/restic.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { createStoreApp, end, inSystem, issue, resticUrl } from '../../../support/backup/store-support.ts';
import { accessParts, buildCaredRepository, type CaredRepository } from './care-support.ts';

describe('retention and pruning', function () {
  this.timeout(120_000);
  let app: TestApp & { dataDir: string };
  let repository: CaredRepository;
  const never = new AbortController().signal;

  before(async function () {
    needsRestic(this);
    app = await createStoreApp();
    repository = await buildCaredRepository(app, { retention: { keepLast: 1 } });
  });
  after(async () => app?.close());

  const parts = () => accessParts(app);
  const inRepository = () =>
    withRepository(parts(), { repositoryId: repository.id, role: 'reader' }, async (engine, opened) =>
      (await listSnapshots(engine, opened)).map(({ id }) => id),
    );
  const row = async () => {
    const found = await inSystem(app, (tx) => tx('backup_repositories').where({ id: repository.id }).first());
    return found as Record<string, unknown>;
  };

  it('remove what the policy does not keep, and hold what was deleted until the rest was read', async () => {
    const old = await repository.backUp(40);
    const held = await repository.backUp(39, { legalHold: true });
    const recent = await repository.backUp(3);
    const newest = await repository.backUp(0);
    const { db } = parts();

    const outdated = await findOutdated(db, repository.id);
    expect(outdated.map(({ id }) => id)).to.deep.equal([old.id]);
    expect(await markRemoved(db, repository.id, outdated)).to.equal(1);
    const due = await findDuePrune(db, repository.id);
    expect(due?.map(({ id }) => id)).to.deep.equal([old.id]);

    // A device that is backing up is not disturbed.
    const device = await issue(app, repository.id, 'device');
    const busy = await pruneRepository(parts(), { repositoryId: repository.id, outdated }, never).catch(
      (error: unknown) => error,
    );
    expect(busy).to.have.property('code', 'conflict');
    await end(app, device);
    expect(await inRepository()).to.have.length(4);

    await pruneRepository(parts(), { repositoryId: repository.id, outdated: due ?? [] }, never);
    expect(await inRepository()).to.have.members([held.engineId, recent.engineId, newest.engineId]);
    expect(await findDuePrune(db, repository.id)).to.equal(undefined);
    const after = await row();
    expect(after['trash_held_at']).to.be.instanceOf(Date);
    expect(after['pruning_until']).to.equal(null);
  });

  it('remove nothing while a size drop is not explained', async () => {
    await repository.backUp(30);
    const { db } = parts();
    expect(await findOutdated(db, repository.id)).to.have.length(1);
    await inSystem(app, (tx) =>
      raiseAlert(tx, {
        orgId: repository.tenant.orgId,
        deviceId: repository.deviceId,
        kind: 'backup_size_drop',
        severity: 'critical',
        title: 't',
        message: 'm',
      }),
    );
    expect(await findOutdated(db, repository.id)).to.deep.equal([]);
  });

  it('leave a snapshot that is put on hold between the decision and its removal', async () => {
    const { backUp, id } = await buildCaredRepository(app, { retention: { keepLast: 1 } });
    const old = await backUp(40);
    await backUp(0);
    const { db } = parts();
    const outdated = await findOutdated(db, id);
    expect(outdated).to.have.length(1);
    await inSystem(app, (tx) => tx('backup_snapshots').where({ id: old.id }).update({ legal_hold: true }));
    expect(await markRemoved(db, id, outdated)).to.equal(0);
    expect(await findDuePrune(db, id)).to.equal(undefined);
  });

  it('give up their exclusive access when they are stopped, and go on afterwards', async () => {
    const { backUp, id } = await buildCaredRepository(app, { retention: { keepLast: 1 } });
    await backUp(40);
    await backUp(0);
    const { db } = parts();
    await markRemoved(db, id, await findOutdated(db, id));
    const outdated = (await findDuePrune(db, id)) ?? [];
    // Wherever it is by then: in restic, or between two runs of it.
    const stopping = new AbortController();
    setTimeout(() => stopping.abort(new EngineError('CANCELLED')), 300);
    const stopped = await pruneRepository(parts(), { repositoryId: id, outdated }, stopping.signal).catch(
      (error: unknown) => error,
    );
    expect(stopped).to.have.property('code', 'CANCELLED');
    expect(await findDuePrune(db, id)).to.have.length(1);
    await pruneRepository(parts(), { repositoryId: id, outdated }, never);
    expect(await findDuePrune(db, id)).to.equal(undefined);
    // Devices are let in again.
    expect(resticUrl(app.url, id, await issue(app, id, 'device'))).to.include(id);
  });
});
