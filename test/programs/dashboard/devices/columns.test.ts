import { expect } from 'chai';
import { assertAccessible, useDashboard } from '../../../support/browser.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildTenant } from '../../../support/factories.ts';
import { asOwner } from '../../../support/test-postgres.ts';

/** The name of the control that has the focus. */
const FOCUSED = `(() => {
  const { activeElement: control } = document;
  return control.getAttribute('aria-label') ?? control.labels?.[0]?.textContent ?? control.tagName;
})()`;

/** How many headings of columns are not shown whole. */
const CUT_HEADINGS = `[...document.querySelectorAll('[role=columnheader], [role=columnheader] > button')]
  .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth).length`;

describe('the columns of the list of devices', () => {
  const dashboard = useDashboard();

  it('show what summaries do not have, are sorted, searched, and part of the address', async () => {
    const { app } = dashboard;
    const tenant = await buildTenant(app);
    const made = await app.call('POST', '/custom-fields', {
      token: tenant.admin.token,
      body: { orgId: tenant.orgId, key: 'room', name: 'Room', type: 'number' },
    });
    expect(made.status).to.equal(201);
    for (const [hostname, user, room] of [
      ['ALPHA', 'ada', 12],
      ['BETA', 'grace', 3],
    ] as const) {
      const { deviceId } = await buildDevice(app, tenant.orgId, { hostname, osType: 'linux' });
      await asOwner(
        app.database.ownerUrl,
        `update devices set last_user = $2, tags = '{server}', custom_fields = $3 where id = $1`,
        [deviceId, user, { room }],
      );
    }
    const page = await dashboard.open('/devices', { person: tenant.admin });
    const rows = page.getByRole('grid', { name: 'Devices' }).getByRole('row');
    await page.getByRole('button', { name: 'Columns' }).click();
    for (const column of ['Last user', 'Tags', 'Room']) {
      await page.getByRole('checkbox', { name: column, exact: true }).check();
    }
    await assertAccessible(page);
    await page.keyboard.press('Escape');
    await rows.filter({ hasText: 'ALPHA' }).getByText('ada').waitFor();
    await rows.filter({ hasText: 'BETA' }).getByText('server').waitFor();
    await page.getByRole('columnheader', { name: 'Room' }).click();
    await rows.nth(1).getByText('BETA').waitFor();
    await assertAccessible(page);

    // A colleague who opens the address sees the same.
    const shared = await dashboard.open(new URL(page.url()).pathname + new URL(page.url()).search, {
      person: tenant.admin,
    });
    const theirs = shared.getByRole('grid', { name: 'Devices' }).getByRole('row');
    await theirs.nth(1).getByText('BETA').waitFor();
    await shared.getByRole('textbox', { name: 'Search devices' }).fill('ada');
    await theirs.filter({ hasText: 'BETA' }).waitFor({ state: 'detached' });
    await shared.getByRole('columnheader', { name: 'Room' }).scrollIntoViewIfNeeded();
    await theirs.filter({ hasText: 'ALPHA' }).getByText('12', { exact: true }).waitFor();
  });

  it('are the usual ones where an address names only such as have been removed, and are there once', async () => {
    const { app } = dashboard;
    const tenant = await buildTenant(app);
    await buildDevice(app, tenant.orgId, { hostname: 'ALPHA' });
    const open = (columns: readonly string[]) =>
      dashboard.open(`/devices?columns=${encodeURIComponent(JSON.stringify(columns))}`, {
        person: tenant.admin,
      });
    const gone = await open(['custom.gone', `custom.${'x'.repeat(73)}`]);
    await gone.getByRole('columnheader', { name: 'Status' }).waitFor();
    await gone.getByText('ALPHA').first().waitFor();
    const twice = await open(['name', 'tags', 'name', `custom.${'x'.repeat(73)}`]);
    await twice.getByRole('columnheader', { name: 'Tags' }).waitFor();
    expect(await twice.getByRole('columnheader', { name: 'Name' }).count()).to.equal(1);
    expect(await twice.getByRole('alert').count()).to.equal(0);
  });

  it('are chosen and put in order by keys, with the focus at the control that was used last', async () => {
    const tenant = await buildTenant(dashboard.app);
    await buildDevice(dashboard.app, tenant.orgId, { hostname: 'ONE' });
    const page = await dashboard.open('/devices', { person: tenant.admin });
    await page.getByRole('grid', { name: 'Devices' }).getByText('ONE').waitFor();
    await page.getByRole('button', { name: 'Columns' }).click();
    const chooser = page.getByRole('dialog', { name: 'Columns' });
    const focus = (label: string) =>
      eventually(
        () => page.evaluate(FOCUSED),
        (name) => name === label,
      );
    const tags = chooser.getByRole('checkbox', { name: 'Tags' });
    await tags.focus();
    await page.keyboard.press('Space');
    await chooser.getByRole('checkbox', { name: 'Tags', checked: true }).waitFor();
    await focus('Tags');
    await page.keyboard.press('Tab');
    await focus('Move Tags to the left');
    await page.keyboard.press('Enter');
    await chooser
      .getByRole('button', { name: 'Move Tags to the right' })
      .and(page.locator(':enabled'))
      .waitFor();
    await focus('Move Tags to the left');
    await chooser.getByRole('button', { name: 'Move Tags to the right' }).press('Enter');
    // Nothing is to the right of it any more.
    await focus('Tags');
    await page.keyboard.press('Space');
    await chooser.getByRole('checkbox', { name: 'Tags', checked: false }).waitFor();
    await focus('Tags');
    await page.keyboard.press('Escape');
    await chooser.waitFor({ state: 'hidden' });
  });

  it('are searched for users, serial numbers and addresses although they are not shown', async () => {
    const { app } = dashboard;
    const tenant = await buildTenant(app);
    for (const [hostname, user, serial] of [
      ['TILL-1', 'farah', 'PF-0001'],
      ['TILL-2', 'grace', 'PF-0002'],
    ] as const) {
      const { deviceId } = await buildDevice(app, tenant.orgId, { hostname });
      await asOwner(app.database.ownerUrl, `update devices set last_user = $2, hardware = $3 where id = $1`, [
        deviceId,
        user,
        { serialNumber: serial },
      ]);
    }
    const page = await dashboard.open('/devices', { person: tenant.admin });
    const grid = page.getByRole('grid', { name: 'Devices' });
    await grid.getByText('TILL-1').waitFor();
    for (const [text, found, other] of [
      ['fara', 'TILL-1', 'TILL-2'],
      ['pf-0002', 'TILL-2', 'TILL-1'],
    ] as const) {
      await page.getByRole('textbox', { name: 'Search devices' }).fill(text);
      await grid.getByText(found).waitFor();
      await grid.getByText(other).waitFor({ state: 'detached' });
      expect(await grid.getByRole('columnheader', { name: 'Last user' }).count()).to.equal(0);
    }
  });

  it('come and go with the place to which a wide table is scrolled, and each cell stays below its heading', async () => {
    const { app } = dashboard;
    const tenant = await buildTenant(app);
    const { deviceId } = await buildDevice(app, tenant.orgId, { hostname: 'WIDE' });
    await asOwner(app.database.ownerUrl, `update devices set last_user = 'ada' where id = $1`, [deviceId]);
    const page = await dashboard.open('/devices', { person: tenant.admin });
    const grid = page.getByRole('grid', { name: 'Devices' });
    await page.getByRole('button', { name: 'Columns' }).click();
    for (const box of await page.getByRole('dialog').getByRole('checkbox').all()) await box.check();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
    const headings = await grid.getByRole('columnheader').count();
    expect(headings).to.be.greaterThan(30);
    const cells = grid.getByRole('row').nth(1).getByRole('gridcell');

    /** Scrolls to a heading and compares the place of the cell that has its number with the place of the heading. */
    const goTo = async (name: string) => {
      const heading = grid.getByRole('columnheader', { name, exact: true });
      await heading.scrollIntoViewIfNeeded();
      const place = (await grid.getByRole('columnheader').allTextContents()).indexOf(name);
      const cell = grid.locator(`[role=gridcell][aria-colindex="${place + 1}"]`);
      await cell.waitFor();
      expect(await cells.count(), 'only some cells are drawn').to.be.lessThan(headings - 5);
      const [above, below] = [await heading.boundingBox(), await cell.boundingBox()];
      expect(below?.x, name).to.be.closeTo(above?.x ?? Number.NaN, 1);
      expect(below?.width, name).to.be.closeTo(above?.width ?? Number.NaN, 1);
      return cell;
    };
    expect(await (await goTo('Last user')).textContent()).to.equal('ada');
    await goTo('Enrolled');
    await assertAccessible(page);
    // The name opens the device, so it is there wherever one has scrolled to.
    expect(await grid.getByRole('link', { name: 'WIDE' }).count()).to.equal(1);
    await goTo('Status');
  });

  it('are lines of cards on a telephone, with headings that can be read and a box in each card', async () => {
    const tenant = await buildTenant(dashboard.app);
    for (const hostname of ['ONE', 'TWO']) await buildDevice(dashboard.app, tenant.orgId, { hostname });
    const viewport = { width: 390, height: 844 };
    const page = await dashboard.open('/devices', { person: tenant.admin, viewport });
    const grid = page.getByRole('grid', { name: 'Devices' });
    await grid.getByText('TWO').waitFor();
    const cut = await page.evaluate<number>(CUT_HEADINGS);
    expect(cut).to.equal(0);
    for (const name of ['ONE', 'TWO']) {
      const card = grid.getByRole('row').filter({ hasText: name });
      const [row, box] = [await card.boundingBox(), await card.getByRole('checkbox').boundingBox()];
      expect(box?.y).to.be.within(row?.y ?? 0, (row?.y ?? 0) + 30);
    }
    await grid.getByRole('row').filter({ hasText: 'TWO' }).getByRole('checkbox').check();
    await page.getByRole('status').filter({ hasText: 'Live' }).waitFor({ state: 'attached' });
    await assertAccessible(page);
  });
});
