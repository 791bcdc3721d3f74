import { expect } from 'chai';
import { newId } from '../../../../src/platform/ids.ts';
import { buildDevice, buildOrganization, buildSite } from '../../../support/factories.ts';
import { LINUX, all, of } from './conditions.ts';
import { filterGround } from './filter-ground.ts';

describe('what saved filters name', () => {
  const ground = filterGround();
  const { send, owner, create, pathsOf } = ground;

  describe('that name others', () => {
    it('are refused in the same words for what is foreign and for what is not there', async () => {
      const foreignGroup = (
        await send('POST', '/groups', { orgId: ground.stranger.orgId, name: 'G' }, ground.stranger.admin)
      ).body.id;
      for (const [field, foreign] of [
        ['orgId', ground.stranger.orgId],
        ['siteId', ground.stranger.siteId],
        ['groupId', foreignGroup],
      ] as const) {
        const told: string[] = [];
        for (const id of [foreign, newId()]) {
          const conditions = { operator: 'OR', conditions: [LINUX, of(field, 'in', [id])] };
          for (const [path, body] of [
            ['/filters', { orgId: ground.tenant.orgId, name: 'x', conditions }],
            ['/filters/preview', { conditions }],
          ] as const) {
            const refused = await send('POST', path, body);
            expect(refused.status).to.equal(400);
            expect(pathsOf(refused)).to.deep.equal(['body.conditions.conditions.1.value']);
            told.push(refused.body.error.replace(id, 'ID'));
          }
        }
        expect(new Set(told).size, field).to.equal(1);
        expect(
          (
            await create(
              { orgId: ground.stranger.orgId, conditions: all(of(field, 'equals', foreign)) },
              ground.stranger.admin,
            )
          ).status,
        ).to.equal(201);
      }
    });

    it('still load when that is gone, say so, find nothing, and can be mended', async () => {
      const siteId = await buildSite(ground.app, ground.tenant.orgId);
      const groupId = (await send('POST', '/groups', { orgId: ground.tenant.orgId, name: newId() })).body.id;
      const conditions = {
        operator: 'OR',
        conditions: [of('siteId', 'equals', siteId), of('groupId', 'in', [groupId])],
      };
      const made = await create({ conditions });
      expect(made.status).to.equal(201);
      const path = `/filters/${made.body.id}`;
      await send('DELETE', `/groups/${groupId}`);
      await send('DELETE', `/orgs/sites/${siteId}`);
      const faults = [
        { path: 'conditions.conditions.0.value', message: `Site does not exist: ${siteId}` },
        { path: 'conditions.conditions.1.value', message: `Group does not exist: ${groupId}` },
      ];
      expect((await send('GET', path)).body).to.deep.equal({ ...made.body, faults });
      const renamed = await send('PATCH', path, { name: 'Broken' });
      expect([renamed.status, renamed.body.name, renamed.body.faults]).to.deep.equal([200, 'Broken', faults]);
      for (const answer of [
        await send('POST', `${path}/preview`),
        await send('GET', `/devices?filterId=${made.body.id}`),
      ]) {
        expect([answer.status, answer.body.details]).to.deep.equal([400, faults]);
      }
      const mended = await send('PATCH', path, { conditions: LINUX });
      expect(mended.body).not.to.have.property('faults');
      expect((await send('POST', `${path}/preview`)).status).to.equal(200);
    });

    it('still load when a field or an operator is not known any more', async () => {
      const { id } = (await create()).body;
      const old = all(of('hardware.gone', 'equals', 'x'), of('custom.rack', 'greaterThan', 5));
      await owner('update saved_filters set conditions = $2 where id = $1', [id, JSON.stringify(old)]);
      const { status, body } = await send('GET', `/filters/${id}`);
      expect([status, body.conditions]).to.deep.equal([200, old]);
      expect(body.faults.map(({ path }: { path: string }) => path)).to.deep.equal([
        'conditions.conditions.0.field',
        'conditions.conditions.1.operator',
      ]);
      const preview = await send('POST', `/filters/${id}/preview`);
      expect([preview.status, preview.body.error]).to.deep.equal([
        400,
        'Unknown field "hardware.gone" (conditions.conditions.0.field)',
      ]);
      expect((await send('PATCH', `/filters/${id}`, { conditions: LINUX })).status).to.equal(200);
    });
  });

  describe('of custom fields', () => {
    it('ask what the definition allows, of text if organizations do not agree, and say when it is gone', async () => {
      const define = async (type: string, orgId = ground.tenant.orgId) =>
        (await send('POST', '/custom-fields', { orgId, key: 'rack', name: 'Rack', type })).body.id;
      const { deviceId } = await buildDevice(ground.app, ground.tenant.orgId);
      const above = all(of('custom.rack', 'greaterThan', 5));
      expect((await create({ conditions: above })).status).to.equal(400);
      const definition = await define('number');
      expect((await send('PATCH', `/devices/${deviceId}`, { customFields: { rack: 7 } })).status).to.equal(
        200,
      );
      expect((await create({ conditions: all(of('custom.rack', 'contains', '7')) })).status).to.equal(400);
      const made = await create({ conditions: above });
      expect(made.status).to.equal(201);
      const preview = () => send('POST', `/filters/${made.body.id}/preview`);
      expect((await preview()).body.data.totalCount).to.equal(1);

      await define('string', await buildOrganization(ground.app, ground.tenant.partnerId));
      expect((await preview()).status).to.equal(400);
      const asText = await send('POST', '/filters/preview', {
        conditions: all(of('custom.rack', 'equals', '7')),
      });
      expect(asText.body.data.totalCount).to.equal(1);
      // In one organization alone there is nothing to disagree with.
      const own = await send('POST', `/filters/${made.body.id}/preview`, undefined, ground.tenant.technician);
      expect(own.body.data.totalCount).to.equal(1);

      expect((await send('DELETE', `/custom-fields/${definition}`)).status).to.equal(200);
      const { body } = await send('GET', `/filters/${made.body.id}`, undefined, ground.tenant.technician);
      expect(body.faults.map(({ path }: { path: string }) => path)).to.deep.equal([
        'conditions.conditions.0.operator',
      ]);
    });
  });
});
