import { expect } from 'chai';
import { assertAccessible, useDashboard } from '../support/browser.ts';
import { buildTenant, PASSWORD } from '../support/factories.ts';

describe('the dashboard in a browser', () => {
  const dashboard = useDashboard();

  it('loads from the server alone, without a fault', async () => {
    const page = await dashboard.newPage();
    const answer = await page.goto('/');
    expect(answer?.status()).to.equal(200);
    await page.getByRole('heading', { name: 'Sign in to Muster' }).waitFor();
    expect(await page.title()).to.include('Muster');
  });

  it('is fit for assistive technology in light and in dark', async () => {
    const page = await dashboard.open('/');
    await page.getByRole('heading', { name: 'Sign in to Muster' }).waitFor();
    await assertAccessible(page);
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
    const own = dashboard.app.url.replace('http:', 'ws:');
    expect(await connect(`${own}/hub/?EIO=4&transport=websocket`)).to.equal('open');
    dashboard.allow(/Content Security Policy|127\.0\.0\.1:9\//);
    expect(await connect('ws://127.0.0.1:9/hub/')).to.match(/forbidden: connect-src|SecurityError/);
  });

  it('runs no script that somebody has put into the page', async () => {
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
    await page.getByText('Live', { exact: true }).waitFor();
    dashboard.allow(/status of 401/);
    const ended = await dashboard.app.call('DELETE', '/auth/sessions', { token: admin.token });
    expect(ended.status).to.equal(200);
    await page.getByText('Your session has ended.').waitFor();
    await page.getByLabel('E-mail address').fill(admin.email);
    await page.locator('input[type=password]').fill(PASSWORD);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { level: 1, name: 'Alerts' }).waitFor();
    expect(new URL(page.url()).search).to.include('q=disk');
    await page.getByText('Live', { exact: true }).waitFor();
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
