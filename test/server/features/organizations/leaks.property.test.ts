import { expect } from 'chai';
import fc from 'fast-check';
import {
  buildDevice,
  buildEnrollmentKey,
  buildOrganization,
  buildPartner,
  buildPerson,
  buildSite,
  type Person,
} from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';

/** Random worlds of providers, customers and people: nobody sees a row too many, nor one too few, by any list or count. */

interface World {
  partners: { organizations: { isDeleted: boolean; devices: number; sites: number }[] }[];
}
type View =
  | { scope: 'system' }
  | { scope: 'partner'; partner: number; access: 'all' | 'none' | number[] }
  | { scope: 'organization'; partner: number; organization: number };

const organization = fc.record({
  isDeleted: fc.boolean(),
  devices: fc.integer({ min: 0, max: 2 }),
  sites: fc.integer({ min: 1, max: 2 }),
});
const worlds: fc.Arbitrary<World> = fc.record({
  partners: fc.array(fc.record({ organizations: fc.array(organization, { minLength: 1, maxLength: 3 }) }), {
    minLength: 2,
    maxLength: 3,
  }),
});

interface Organization {
  id: string;
  partner: number;
  isDeleted: boolean;
  sites: string[];
  devices: string[];
}

describe('random worlds of tenants', function () {
  let app: TestApp;

  before(async () => {
    app = await sharedTestApp();
  });
  after(async () => app.close());

  it('show everyone exactly what is theirs', async () => {
    await fc.assert(
      fc.asyncProperty(worlds, fc.infiniteStream(fc.nat(1000)), async (world, dice) => {
        const roll = (sides: number) => (dice.next().value as number) % sides;
        const { organizations, partnerIds } = await build(world);
        const own = new Set(organizations.map(({ id }) => id));
        for (const view of viewsOf(world, roll)) {
          const person = await enter(view, organizations, partnerIds);
          const visible = organizations.filter((one) => !one.isDeleted && sees(view, one, organizations));
          await assertSees(person, view, visible, organizations, own);
        }
      }),
      { numRuns: 6 },
    );
  });

  async function build(world: World) {
    const organizations: Organization[] = [];
    const partnerIds: string[] = [];
    for (const [partner, { organizations: wanted }] of world.partners.entries()) {
      const partnerId = await buildPartner(app);
      partnerIds.push(partnerId);
      for (const { isDeleted, devices, sites } of wanted) {
        const id = await buildOrganization(app, partnerId);
        const built: Organization = { id, partner, isDeleted, sites: [], devices: [] };
        for (let n = 0; n < sites; n++) built.sites.push(await buildSite(app, id));
        for (let n = 0; n < devices; n++) built.devices.push((await buildDevice(app, id)).deviceId);
        if (devices === 0) await buildEnrollmentKey(app, id);
        if (isDeleted) await markDeleted(id);
        organizations.push(built);
      }
    }
    return { organizations, partnerIds };
  }

  async function markDeleted(id: string): Promise<void> {
    await app.server.database.pool.transaction(async (trx) => {
      await trx.raw('set local role svc_system');
      await trx('organizations').where({ id }).update({ deleted_at: new Date() });
    });
  }

  function viewsOf(world: World, roll: (sides: number) => number): View[] {
    const partner = roll(world.partners.length);
    const count = world.partners[partner]!.organizations.length;
    return [
      { scope: 'system' },
      { scope: 'partner', partner, access: 'all' },
      { scope: 'partner', partner, access: 'none' },
      { scope: 'partner', partner, access: Array.from({ length: roll(count) + 1 }, () => roll(count)) },
      { scope: 'organization', partner, organization: roll(count) },
    ];
  }

  const ofPartner = (organizations: Organization[], partner: number) =>
    organizations.filter((one) => one.partner === partner);

  function sees(view: View, one: Organization, all: Organization[]): boolean {
    if (view.scope === 'system') return true;
    if (one.partner !== view.partner) return false;
    const index = ofPartner(all, view.partner).indexOf(one);
    if (view.scope === 'organization') return index === view.organization;
    return view.access === 'all' || (view.access !== 'none' && view.access.includes(index));
  }

  async function enter(
    view: View,
    organizations: Organization[],
    partnerIds: string[],
  ): Promise<Person | undefined> {
    if (view.scope === 'system') return buildPerson(app, { scope: 'system' });
    const inPartner = ofPartner(organizations, view.partner);
    if (view.scope === 'organization') {
      const { id, isDeleted } = inPartner[view.organization]!;
      // Whoever belongs to a deleted organization alone cannot sign in at all.
      return isDeleted ? undefined : buildPerson(app, { scope: 'organization', orgId: id });
    }
    const partnerId = partnerIds[view.partner]!;
    if (typeof view.access === 'string') {
      return buildPerson(app, { scope: 'partner', partnerId, orgAccess: view.access });
    }
    // A foreign id in the selection must open nothing.
    const foreign = organizations.filter(({ partner }) => partner !== view.partner).map(({ id }) => id);
    const orgIds = [...view.access.map((index) => inPartner[index]!.id), ...foreign];
    return buildPerson(app, { scope: 'partner', partnerId, orgAccess: 'selected', orgIds });
  }

  async function assertSees(
    person: Person | undefined,
    view: View,
    visible: Organization[],
    all: Organization[],
    own: Set<string>,
  ) {
    if (person === undefined) return;
    const get = (path: string) => app.call('GET', path, { token: person.token });
    const listed = async (path: string) => {
      const ids: string[] = [];
      for (let page = 1; ; page++) {
        const { body } = await get(`${path}${path.includes('?') ? '&' : '?'}limit=3&page=${page}`);
        ids.push(
          ...body.data
            .filter((row: { orgId?: string; id: string }) => own.has(row.orgId ?? row.id))
            .map(({ id }: { id: string }) => id),
        );
        if (page * 3 >= body.pagination.total) {
          if (view.scope !== 'system') expect(body.pagination.total, `${path} counts`).to.equal(ids.length);
          return ids;
        }
      }
    };
    const label = JSON.stringify(view);
    const orgs = (await get('/orgs/')).body.data
      .map(({ id }: { id: string }) => id)
      .filter((id: string) => own.has(id));
    expect(orgs, label).to.have.members(visible.map(({ id }) => id));
    // The system sees the rows of deleted organizations as well; no tenant does.
    const rowsOf = view.scope === 'system' ? all : visible;
    if (view.scope !== 'system') {
      expect(await listed('/devices'), label).to.have.members(rowsOf.flatMap(({ devices }) => devices));
      expect(await listed('/devices?search=desk'), label).to.have.members(
        rowsOf.flatMap(({ devices }) => devices),
      );
      expect(await listed('/orgs/sites'), label).to.have.members(rowsOf.flatMap(({ sites }) => sites));
      expect(
        new Set(
          (await get('/enrollment-keys?limit=100')).body.data.map(({ orgId }: { orgId: string }) => orgId),
        ),
      ).to.satisfy((seen: Set<string>) => [...seen].every((id) => visible.some((one) => one.id === id)));
      if (view.scope === 'partner') {
        expect(await listed('/orgs/organizations'), label).to.have.members(visible.map(({ id }) => id));
      }
    }
    for (const one of all) {
      const isVisible = visible.includes(one);
      for (const id of one.devices) {
        expect((await get(`/devices/${id}`)).status === 200, label).to.equal(
          isVisible || view.scope === 'system',
        );
      }
      for (const id of one.sites) {
        expect((await get(`/orgs/sites/${id}`)).status === 200, label).to.equal(
          isVisible || view.scope === 'system',
        );
      }
      if (view.scope === 'organization' || isVisible) continue;
      expect((await get(`/orgs/organizations/${one.id}`)).status, label).to.equal(404);
      expect((await get(`/devices?orgId=${one.id}`)).status, label).to.equal(
        view.scope === 'system' ? 404 : 403,
      );
    }
  }
});
