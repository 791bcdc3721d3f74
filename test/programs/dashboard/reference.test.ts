import { expect } from 'chai';
import { assertAccessible, useDashboard } from '../../support/browser.ts';
import { eventually } from '../../support/eventually.ts';

/** The pages for programmers, which this server serves beside the dashboard. */
describe('the reference', () => {
  const dashboard = useDashboard();

  it('of the REST interface is accessible, and finds routes by their path or summary', async () => {
    const page = await dashboard.open('/docs');
    const search = page.getByRole('textbox', { name: 'Search routes by path or summary' });
    await search.fill('enrollment-keys');
    await page.locator('.opblock').first().waitFor();
    const routes = page.locator('.opblock-summary-path');
    const found = await eventually(
      () => routes.allTextContents(),
      (paths) => paths.length > 0 && paths.every((each) => each.includes('enrollment-keys')),
    );
    expect(found.length).to.be.within(3, 10);
    await page.locator('.opblock-post .opblock-summary-control').first().click();
    await page.locator('.opblock-body').waitFor();
    await assertAccessible(page);
  });

  it('of the REST interface shows in the example of a route what its references name', async () => {
    const page = await dashboard.open('/docs');
    await page.getByRole('textbox', { name: 'Search routes by path or summary' }).fill('/script-runs');
    const route = page.locator('.opblock', { hasText: 'List script runs, newest first' });
    await route.locator('.opblock-summary-control').click();
    await route.locator('.example', { hasText: '"scriptId"' }).waitFor();
  });

  it('of the socket messages is accessible, and finds messages by what they hold', async () => {
    const page = await dashboard.open('/docs/sockets');
    await assertAccessible(page);
    await page.getByRole('searchbox', { name: 'Search' }).fill('devices:subscribe');
    await page
      .getByRole('status')
      .getByText(/^\d+ messages?$/)
      .waitFor();
    await page.getByRole('link', { name: 'heartbeat', exact: true }).waitFor({ state: 'hidden' });
    await page.getByRole('link', { name: 'devices:subscribe', exact: true }).waitFor();
  });
});
