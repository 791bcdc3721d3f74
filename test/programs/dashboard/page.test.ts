import { expect } from 'chai';
import type { Page, Route } from 'playwright-core';
import { assertAccessible, useDashboard } from '../../support/browser.ts';
import { eventually } from '../../support/eventually.ts';
import { buildDevice, buildTenant, PASSWORD } from '../../support/factories.ts';
import { connectDevice } from '../../support/fake-device.ts';
import { asOwner } from '../../support/test-postgres.ts';

describe('the dashboard in a browser', () => {
  const dashboard = useDashboard({ restarts: true });

  const isLive = (page: Page) => page.getByText('Live', { exact: true }).waitFor();
  /** A page that was loaded again has lost its mark. */
  const mark = (page: Page) => page.evaluate('globalThis.isMarked = true');
  const isMarked = (page: Page) => page.evaluate('globalThis.isMarked === true');

  it('loads from the server alone, without a fault', async () => {
    const page = await dashboard.newPage();
    const answer = await page.goto('/');
    expect(answer?.status()).to.equal(200);
    await page.getByRole('heading', { name: 'Sign in to Muster' }).waitFor();
    expect(await page.title()).to.include('Muster');
  });

  it('paints with few files, and waits for nothing else', async () => {
    const html = await (await fetch(dashboard.url, { headers: { accept: 'text/html' } })).text();
    const named = [...html.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)].map(([, file]) => file);
    expect(named.length).to.be.within(2, 6);
    const page = await dashboard.newPage();
    await page.route('**/*', (route) => {
      const { pathname } = new URL(route.request().url());
      // Nothing else is ever answered.
      return pathname === '/' || named.includes(pathname) ? route.continue() : undefined;
    });
    await page.goto('/', { waitUntil: 'commit' });
    await page.getByText('Opening').waitFor();
  });

  it('asks for its parts while it opens the session, and then for all data at once', async () => {
    const { admin } = await buildTenant(dashboard.app);
    const page = await dashboard.open('/', { person: admin });
    await isLive(page);
    const asked: string[] = [];
    const held: Route[] = [];
    let answered = /^\/assets\//;
    const pathOf = (route: Route) => new URL(route.request().url()).pathname;
    await page.route(/\/(assets|api)\//, async (route) => {
      asked.push(pathOf(route));
      if (answered.test(pathOf(route))) await route.continue();
      else held.push(route);
    });
    const isAsked = (...paths: RegExp[]) =>
      eventually(
        () => asked,
        () => paths.every((path) => asked.some((each) => path.test(each))),
      );
    // What the page that is left asks at its end does not count.
    page.once('framenavigated', () => asked.splice(0));
    await page.reload({ waitUntil: 'commit' });
    await isAsked(/auth\/refresh$/, /overview-page/, /socket/);
    // On a slow machine, the page has asked again meanwhile.
    const early = new Set(asked.filter((path) => path.startsWith('/api/')));
    expect([...early]).to.deep.equal(['/api/v1/auth/refresh']);

    const connection = page.waitForEvent('websocket');
    answered = /^\/assets\/|\/auth\//;
    await Promise.all(held.splice(0).map((route) => route.continue().catch(() => undefined)));
    await connection;
    await isAsked(
      /\/alerts\/causes$/,
      /\/audit-logs\/logs$/,
      /\/backup\/dashboard$/,
      /\/organizations$/,
      /\/sites$/,
    );
  });

  it('is fit for assistive technology in light and in dark', async () => {
    const page = await dashboard.open('/');
    await page.getByRole('heading', { name: 'Sign in to Muster' }).waitFor();
    await assertAccessible(page);
  });

  it('keeps nothing in memory of menus, popovers and dialogs that were closed', async () => {
    const { admin } = await buildTenant(dashboard.app);
    const page = await dashboard.open('/devices', { person: admin });
    await isLive(page);
    const devtools = await page.context().newCDPSession(page);
    const nodes = async () => {
      // What ends with one collection is free for the next.
      for (let times = 0; times < 3; times++) await devtools.send('HeapProfiler.collectGarbage');
      return (await devtools.send('Memory.getDOMCounters')).nodes;
    };
    for (const name of ['Columns', 'Views', 'Search', /^Your account/]) {
      const button = page.getByRole('button', { name });
      const shown = page.getByRole('dialog').or(page.getByRole('menu'));
      const openAndClose = async (times: number) => {
        for (let time = 0; time < times; time++) {
          await button.click();
          await shown.waitFor();
          await page.keyboard.press('Escape');
          await shown.waitFor({ state: 'detached' });
        }
      };
      await openAndClose(2);
      const before = await nodes();
      await openAndClose(5);
      // The smallest of them has more than ten elements, so five that are kept are more than this.
      expect((await nodes()) - before, String(name)).to.be.below(50);
    }
  });

  it('may connect to the hub of its own server, and to no other', async () => {
    const page = await dashboard.open('/');
    const connect = (address: string) =>
      page.evaluate<string>(
        `new Promise((resolve) => {
          document.addEventListener('securitypolicyviolation', (event) => resolve('forbidden: ' + event.effectiveDirective));
          try {
            const socket = new WebSocket(${JSON.stringify(address)});
            socket.onopen = () => { socket.close(); resolve('open'); };
          } catch (error) { resolve(error.name); }
        })`,
      );
    const own = dashboard.url.replace('http:', 'ws:');
    expect(await connect(`${own}/hub/?EIO=4&transport=websocket`)).to.equal('open');
    dashboard.allow(/Content Security Policy|127\.0\.0\.1:9\//);
    expect(await connect('ws://127.0.0.1:9/hub/')).to.match(/forbidden: connect-src|SecurityError/);
  });

  it('runs no script that a person has put into the page', async () => {
    const page = await dashboard.open('/');
    dashboard.allow(/Content Security Policy/);
    await page.evaluate(`{
      const script = document.createElement('script');
      script.textContent = 'globalThis.planted = true';
      document.body.append(script);
    }`);
    expect(await page.evaluate('globalThis.planted')).to.equal(undefined);
  });

  it('leads to the sign-in when its session is ended elsewhere, and afterwards back to the page', async () => {
    const { admin } = await buildTenant(dashboard.app);
    const page = await dashboard.open('/alerts?q=disk', { person: admin });
    await isLive(page);
    dashboard.allow(/status of 401/);
    const ended = await dashboard.app.call('DELETE', '/auth/sessions', { token: admin.token });
    expect(ended.status).to.equal(200);
    await page.getByText('Your session has ended.').waitFor();
    await page.getByLabel('E-mail address').fill(admin.email);
    await page.locator('input[type=password]').fill(PASSWORD);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.getByRole('heading', { level: 1, name: 'Alerts' }).waitFor();
    expect(new URL(page.url()).search).to.include('q=disk');
    await isLive(page);
  });

  it('shows nothing of what another person has read who was signed in before', async () => {
    const [first, second] = [await buildTenant(dashboard.app), await buildTenant(dashboard.app)];
    await asOwner(dashboard.app.database.ownerUrl, 'update organizations set name = $1 where id = $2', [
      'Of the first person',
      first.orgId,
    ]);
    const page = await dashboard.open('/organizations', { person: first.admin });
    const secret = page.getByRole('link', { name: 'Of the first person' });
    await secret.waitFor();
    dashboard.allow(/status of 401/);
    await dashboard.app.call('DELETE', '/auth/sessions', { token: first.admin.token });
    await page.getByText('Your session has ended.').waitFor();
    // What the second person may see is never answered.
    await page.route(/\/orgs\//, () => undefined);
    await page.getByLabel('E-mail address').fill(second.admin.email);
    await page.locator('input[type=password]').fill(PASSWORD);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.getByText('Reading').first().waitFor();
    expect(await secret.count()).to.equal(0);
  });

  it('shows what it knew while the server is away, and the present state afterwards, without being loaded again', async () => {
    const { app } = dashboard;
    const { admin, orgId } = await buildTenant(app);
    const device = await buildDevice(app, orgId, { hostname: 'FRONT-DESK' });
    await connectDevice(app, device.token);
    const page = await dashboard.open('/devices', { person: admin });
    const row = page.getByRole('row').filter({ hasText: 'FRONT-DESK' });
    await row.getByText('Online').waitFor();
    await isLive(page);
    await mark(page);
    dashboard.allow(/ERR_|WebSocket/);

    await dashboard.stopServer();
    await page.getByText(/^Reconnecting · data is .* old$/).waitFor();
    await page.getByText('not up to date').waitFor();
    await row.getByText('Online').waitFor();
    // What would be loaded for the next page cannot be, which is no reason to give up this one.
    await page.getByRole('link', { name: 'Alerts' }).hover();
    await asOwner(app.database.ownerUrl, 'update organizations set name = $1 where id = $2', [
      'Renamed meanwhile',
      orgId,
    ]);
    await dashboard.startServer();

    await isLive(page);
    await row.getByText('Offline').waitFor();
    await row.getByText('Renamed meanwhile').waitFor();
    await page.getByText('not up to date').waitFor({ state: 'detached' });
    expect(await isMarked(page)).to.equal(true);
  });

  it('says that a page cannot be opened while the server is away, and opens it afterwards', async () => {
    const { admin } = await buildTenant(dashboard.app);
    const page = await dashboard.open('/devices', { person: admin });
    await isLive(page);
    dashboard.allow(/ERR_|WebSocket|could not be loaded/);
    await dashboard.stopServer();
    await page.getByRole('link', { name: 'Alerts' }).click();
    await page.getByText('The page is loaded again as soon as it answers.').waitFor();
    await dashboard.startServer();
    await page.getByRole('heading', { level: 1, name: 'Alerts' }).waitFor();
    await isLive(page);
  });

  it('says that Muster was updated, lets a person finish, and loads the next page with the new version', async () => {
    const { admin } = await buildTenant(dashboard.app);
    const page = await dashboard.open('/devices?q=desk', { person: admin });
    await isLive(page);
    await mark(page);
    dashboard.allow(/ERR_|WebSocket|status of 404|could not be loaded|Refused to apply style/);
    await dashboard.stopServer();
    await dashboard.startServer({ isUpdated: true });
    await page.getByRole('button', { name: 'New version' }).waitFor();
    await page.getByLabel('Search devices').fill('front');
    expect(await isMarked(page)).to.equal(true);
    await page.getByRole('link', { name: 'Alerts' }).click();
    await page.getByText('This is the new version.').waitFor();
    await page.getByRole('heading', { level: 1, name: 'Alerts' }).waitFor();
    expect(await isMarked(page)).to.equal(false);
    await isLive(page);
  });

  it('is loaded again, once, if the part that it needs went with an update', async () => {
    const page = await dashboard.open('/login');
    await page.getByRole('heading', { name: 'Sign in to Muster' }).waitFor();
    // Scripts and styles of the former version are gone.
    dashboard.allow(/status of 404|could not be loaded|Refused to apply style/);
    await dashboard.stopServer();
    await dashboard.startServer({ isUpdated: true });
    let loads = 0;
    page.on('load', () => (loads += 1));
    await page.getByRole('link', { name: 'I have forgotten my password' }).click();
    await page.getByRole('heading', { name: 'Forgotten password' }).waitFor();
    expect(loads).to.equal(1);
  });

  it('recovers by itself after an hour of sleep, and sends nothing later that a person wanted before', async () => {
    const { admin, orgId } = await buildTenant(dashboard.app);
    const page = await dashboard.newPage();
    await page.clock.install();
    await page.goto(`/enrollment${await dashboard.app.server.signInFragment(admin.id)}`);
    await isLive(page);
    await mark(page);
    dashboard.allow(/ERR_|WebSocket/);

    await page.context().setOffline(true);
    await page.getByRole('button', { name: 'New key' }).first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill('Wanted without a network');
    await dialog.getByRole('button', { name: 'Create key' }).click();
    await dialog.getByText('The server cannot be reached.').waitFor();
    await page.getByText(/^Reconnecting/).waitFor();
    await page.keyboard.press('Escape');
    await page.clock.fastForward('01:00:00');
    // The network loses the first request without a word.
    let renewals = 0;
    await page.route(/auth\/refresh$/, (route) => (++renewals === 1 ? undefined : route.continue()));
    const renewal = page.waitForRequest(/auth\/refresh$/);
    await page.context().setOffline(false);
    await renewal;
    await page.clock.fastForward('00:10');
    await isLive(page);
    const keys = await dashboard.app.call('GET', '/enrollment-keys', { token: admin.token });
    expect(keys.body.data).to.deep.equal([]);
    await buildDevice(dashboard.app, orgId, { hostname: 'NEW-DESK' });
    await page.getByText('NEW-DESK').waitFor();
    await isLive(page);
    expect(await isMarked(page)).to.equal(true);
  });

  it('asks again if a request was lost without a word', async () => {
    const { admin } = await buildTenant(dashboard.app);
    const page = await dashboard.newPage();
    await page.clock.install();
    await page.goto(`/organizations${await dashboard.app.server.signInFragment(admin.id)}`);
    await isLive(page);
    let reads = 0;
    await page.route(/api\/v1\/groups/, (route) => (++reads === 1 ? undefined : route.continue()));
    const lost = page.waitForRequest(/api\/v1\/groups/);
    await page.getByRole('navigation').getByRole('link', { name: 'Groups' }).click();
    await lost;
    await page.clock.fastForward('01:00');
    await page.getByText('No groups').waitFor();
    expect(reads).to.be.greaterThan(1);
  });

  it('shows the rule of a field at the field, and keeps what was typed', async () => {
    const { admin } = await buildTenant(dashboard.app);
    const page = await dashboard.open('/organizations', { person: admin });
    await page.getByRole('button', { name: 'New organization' }).first().click();
    await page.getByLabel('Name', { exact: false }).first().fill('A customer');
    const shortName = page.getByLabel('Short name');
    await shortName.fill('Not A Slug');
    dashboard.allow(/status of 400/);
    await page.getByRole('button', { name: 'Create organization' }).click();
    await page.locator('.mantine-TextInput-error').waitFor();
    expect(await shortName.inputValue()).to.equal('Not A Slug');
    expect(await shortName.getAttribute('aria-invalid')).to.equal('true');
  });
});
