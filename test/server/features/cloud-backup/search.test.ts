import { expect } from 'chai';
import { fillAll } from '../../../../src/features/cloud-backup/content-store.ts';
import { buildTenant } from '../../../support/factories.ts';
import { sentStatements } from '../../../support/sent-statements.ts';
import { asOwner } from '../../../support/test-postgres.ts';
import { inSystem } from '../../../support/backup/store-support.ts';
import {
  type CloudFixture,
  type CloudItemAnswer,
  createCloudFixture,
} from '../../../support/cloud-backup/cloud-support.ts';

const ITEMS = [
  'The Contract 2026',
  'Contract (draft)',
  '100% sure_thing',
  "Robert'); drop table c2c_items;--",
  'ÜBERSICHT März',
  String.raw`C:\Temp`,
];

describe('the search in cloud items', function () {
  this.timeout(60_000);
  let cloud: CloudFixture;
  let configId: string;

  before(async () => {
    cloud = await createCloudFixture();
    const ada = cloud.mailbox('ada@example.com');
    ITEMS.forEach((subject, n) => ada.message(`m${n}`, subject));
    ada.message('from', 'Hello', 'x', { from: { name: 'Grace Hopper', address: 'grace@navy.example' } });
    ada.event('event', 'Review', { name: 'Alan Turing', address: 'alan@bletchley.example' });
    ada.contact('katherine', 'Katherine Johnson');
    ada.file('file', 'contract.pdf', Buffer.from('x'));
    configId = await cloud.config();
    await cloud.run(configId);
  });
  after(() => cloud.close());

  const search = (text: string, more = `configId=${configId}`) =>
    cloud.call('GET', `/c2c/items?${more}&search=${encodeURIComponent(text)}`);
  const found = async (text: string, more?: string) =>
    ((await search(text, more)).body.data as CloudItemAnswer[])
      .map(({ subjectOrName }) => subjectOrName)
      .toSorted();

  it('finds every word as a part of a subject or name, in any case and any order', async () => {
    const contracts = ['Contract (draft)', 'The Contract 2026', 'contract.pdf'];
    expect(await found('CONTRACT')).to.deep.equal(contracts);
    expect(await found('  2026   tract ')).to.deep.equal(['The Contract 2026']);
    expect(await found('übersicht MÄRZ')).to.deep.equal(['ÜBERSICHT März']);
    expect(await found('contract missing')).to.deep.equal([]);
    expect(await found('contract', `configId=${configId}&itemType=onedrive`)).to.deep.equal(['contract.pdf']);
    expect(
      await found('contract', `configId=${configId}&userEmail=ada@example.com&isDeleted=true`),
    ).to.deep.equal([]);
    expect(await found('contract', 'limit=100'), 'over all configurations').to.deep.equal(contracts);
  });

  it('finds who has sent a message, who organizes an event, and the address of a contact', async () => {
    for (const text of ['grace', 'hopper hello', 'navy.example']) {
      expect(await found(text), text).to.deep.equal(['Hello']);
    }
    expect(await found('turing')).to.deep.equal(['Review']);
    expect(await found('bletchley')).to.deep.equal(['Review']);
    expect(await found('katherine@example.com')).to.deep.equal(['Katherine Johnson']);
  });

  it('takes every character as it is', async () => {
    expect(await found('%')).to.deep.equal(['100% sure_thing']);
    expect(await found('e_t')).to.deep.equal(['100% sure_thing']);
    expect(await found('\\')).to.deep.equal(['C:\\Temp']);
    expect(await found("robert'); drop table c2c_items;--")).to.deep.equal([ITEMS[3]]);
    expect(await found("' or true --")).to.deep.equal([]);
    expect((await search('\0')).status).to.equal(400);
    expect((await search('a '.repeat(11).trim())).status).to.equal(400);
    expect((await search('a'.repeat(201))).status).to.equal(400);
    expect((await search(' ')).status).to.equal(400);
  });

  it('goes on page by page, and ends', async () => {
    const names: string[] = [];
    for (let after = ''; ; ) {
      const { body } = await search('contract', `configId=${configId}&limit=1${after}`);
      names.push(...(body.data as CloudItemAnswer[]).map(({ subjectOrName }) => subjectOrName));
      if (body.nextAfter === null) break;
      after = `&after=${body.nextAfter as string}`;
    }
    expect(names.toSorted()).to.deep.equal(await found('contract'));
  });

  it('finds nothing of another tenant, whatever is named', async () => {
    const { admin } = await buildTenant(cloud.app);
    for (const more of ['', `&configId=${configId}`]) {
      const { body } = await cloud.app.call('GET', `/c2c/items?search=contract${more}`, {
        token: admin.token,
      });
      expect(body.data, more).to.deep.equal([]);
    }
    const foreign = await cloud.app.call('GET', `/c2c/items?search=contract&orgId=${cloud.tenant.orgId}`, {
      token: admin.token,
    });
    expect(foreign.status).to.be.oneOf([403, 404]);
  });

  it('finds an item by its newest name, and one that was there before the search was', async () => {
    const ada = cloud.graph.mailboxes.get('ada@example.com')!;
    ada.message('m1', 'Agreement');
    await cloud.run(configId);
    expect(await found('agreement')).to.deep.equal(['Agreement']);
    expect(await found('draft')).to.deep.equal([]);
    await inSystem(cloud.app, (tx) =>
      tx('c2c_items').where({ config_id: configId, name: 'Agreement' }).update({ search_text: null }),
    );
    expect(await found('agreement')).to.deep.equal([]);
    await fillAll(cloud.app.server.database.jobPool, new AbortController().signal);
    expect(await found('agreement')).to.deep.equal(['Agreement']);
  });

  it('reads the index and no item, as the role that serves', async () => {
    const statements = await sentStatements(['muster'], async () => void (await found('tract 2026')));
    const [statement] = statements.filter((sql) => sql.includes('search_text'));
    expect(statement, statements.join('\n')).to.be.a('string');
    await asOwner(cloud.app.database.ownerUrl, 'vacuum analyze c2c_items');
    // A table of so few items is read faster as a whole.
    const url = `${cloud.app.database.appUrl}?options=-c%20enable_seqscan%3Doff`;
    const lines = await asOwner<{ 'QUERY PLAN': string }>(url, `explain (generic_plan) ${statement ?? ''}`);
    const plan = lines.map((line) => line['QUERY PLAN']).join('\n');
    expect(plan).to.match(/Index Only Scan using c2c_items_search .*\n\s*Index Cond: .*org_id.*config_id/);
  });

  it('stores the longest texts of any alphabet', async () => {
    const [row] = await asOwner<{ id: string }>(
      cloud.app.database.ownerUrl,
      `select id from c2c_items where config_id = $1 limit 1`,
      [configId],
    );
    // Without repetitions, which would be compressed.
    const wide = (length: number, from: number) =>
      Array.from({ length }, (_, n) => String.fromCodePoint(0x20000 + ((from + n * 7919) % 40_000))).join('');
    await asOwner(
      cloud.app.database.ownerUrl,
      'update c2c_items set name = $2, user_email = $3, deleted_at = now(), metadata = $4 where id = $1',
      [row?.id, wide(500, 1), wide(320, 2), JSON.stringify({ fromName: wide(200, 3), from: wide(320, 4) })],
    );
    expect(await found(wide(40, 1))).to.deep.equal([wide(500, 1)]);
  });
});
