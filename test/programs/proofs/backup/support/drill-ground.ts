import { expect } from 'chai';
import { randomBytes } from 'node:crypto';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { EngineError } from '../../../../../src/engine/index.ts';
import { EncryptionKeyVersion, passwordOf } from '../../../../../src/features/backup/key.model.ts';
import { pruneRepository } from '../../../../../src/features/backup/maintenance.work.ts';
import {
  findDuePrune,
  findOutdated,
  markRemoved,
} from '../../../../../src/features/backup/retention.service.ts';
import type { BackupSnapshot } from '../../../../../src/features/backup/snapshot.model.ts';
import {
  accessParts,
  buildCaredRepository,
  type CaredRepository,
} from '../../../features/backup/care-support.ts';
import { end, inSystem, issue, resticUrl } from '../../../../support/backup/store-support.ts';
import { resticFor } from '../../../../support/restic.ts';
import type { TestApp } from '../../../../support/test-app.ts';
import { type Attacker, attackerWith } from './attacker.ts';
import { describeTree, type Tree } from './tree.ts';

/** A repository with snapshots of some age, somebody who has taken its device over, and what the server does at night. */

export interface Ground {
  repository: CaredRepository;
  good: BackupSnapshot;
  tree: Tree;
  goodAt: Date;
  password: string;
}

type App = TestApp & { dataDir: string };

const never = new AbortController().signal;

export function drillGround(app: App) {
  async function build(): Promise<Ground> {
    const repository = await buildCaredRepository(app, { retention: { keepLast: 1 } });
    await writeFile(path.join(repository.source, 'large'), randomBytes(2_000_000));
    await repository.backUp(40);
    const good = await repository.backUp(10);
    await inSystem(app, (tx) => tx('backup_snapshots').where({ id: good.id }).update({ legal_hold: false }));
    const tree = await describeTree(repository.source);
    const version = await inSystem(app, (tx) =>
      EncryptionKeyVersion.query(tx)
        .findOne({ key_id: repository.tenant.keyId, version: 1 })
        .throwIfNotFound(),
    );
    const password = passwordOf(accessParts(app).secrets, version);
    return { repository, good, tree, goodAt: new Date(), password };
  }

  async function attack(
    { repository, password }: Ground,
    work: (attacker: Attacker) => Promise<void>,
  ): Promise<void> {
    const credential = await issue(app, repository.id, 'device');
    await work(await attackerWith(app.url, repository.id, credential, password));
    await end(app, credential);
  }

  /** What the server does at night. */
  async function retain(ground: Ground): Promise<string> {
    const { id } = ground.repository;
    const parts = accessParts(app);
    await markRemoved(parts.db, id, await findOutdated(parts.db, id));
    const outdated = await findDuePrune(parts.db, id);
    expect(outdated, 'something to prune').to.not.equal(undefined);
    const work = { repositoryId: id, outdated: outdated ?? [] };
    return pruneRepository(parts, work, never).then(
      () => 'pruned',
      (error: unknown) => {
        if (error instanceof EngineError) return error.code;
        throw error;
      },
    );
  }

  async function restored(
    { repository, password, good }: Ground,
    role: 'reader' | 'as-of',
    asOf?: Date,
  ): Promise<Tree> {
    const credential = await issue(app, repository.id, role, asOf === undefined ? {} : { asOf });
    const cache = path.join(app.dataDir, `cache-${credential.id}`);
    const restic = resticFor(resticUrl(app.url, repository.id, credential), cache, password);
    const target = path.join(app.dataDir, `restored-${credential.id}`);
    await mkdir(target);
    try {
      await restic.ok('restore', good.engineId, '--target', target, '--no-lock');
      return await describeTree(path.join(target, repository.source));
    } finally {
      await rm(target, { recursive: true });
      await rm(cache, { recursive: true, force: true });
    }
  }

  async function expectUnharmed(ground: Ground): Promise<void> {
    expect(await retain(ground)).to.equal('pruned');
    expect(await restored(ground, 'as-of', ground.goodAt), 'as of before the attack').to.deep.equal(
      ground.tree,
    );
    expect(await restored(ground, 'reader'), 'as it is now').to.deep.equal(ground.tree);
  }

  return { build, attack, retain, restored, expectUnharmed };
}
