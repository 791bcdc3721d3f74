import { expect } from 'chai';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Page } from 'playwright-core';
import { codeOf, enableSecondFactor } from '../../support/auth/second-factor-support.ts';
import { insertOidcProvider, type Owner, proveDomain, query } from '../../support/sso/sso-support.ts';
import { assertAccessible, useDashboard } from '../../support/browser.ts';
import { buildPerson, buildTenant, PASSWORD, type Person } from '../../support/factories.ts';
import { TEST_AUTHORITY } from '../../support/https-server.ts';
import { Keyboard } from '../../support/keyboard.ts';
import { openMailbox } from '../../support/mailbox.ts';
import { type OidcProvider, startOidcProvider } from '../../support/oidc-provider.ts';

const LOGO =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

describe('the ways in', () => {
  const mailbox = openMailbox(mkdtempSync(path.join(tmpdir(), 'muster-mail-')));
  const dashboard = useDashboard({
    outbound: { ca: TEST_AUTHORITY },
    env: { DATA_DIR: mailbox.dataDir, SSO_ALLOWED_PRIVATE_CIDRS: '127.0.0.0/8' },
  });
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let idp: OidcProvider | undefined;

  before(async () => {
    tenant = await buildTenant(dashboard.app);
  });
  after(async () => {
    await idp?.stop();
    await mailbox.remove();
  });

  const heading = (page: Page, name: string) => page.getByRole('heading', { level: 1, name });

  it('by a password and a second factor, which a person sets up: by keys alone', async () => {
    const { technician: person } = tenant;
    const page = await dashboard.open('/profile');
    const keys = new Keyboard(page);
    const email = page.getByRole('textbox', { name: 'E-mail address' });
    const code = page.getByRole('textbox', { name: 'Code' });
    const wrong = page.getByRole('alert').getByText('The code is incorrect or has expired.');
    const signIn = async () => {
      await keys.hasFocus(email);
      await keys.type(person.email);
      await keys.fill(page.getByRole('textbox', { name: 'Password' }), PASSWORD);
      await keys.press('Enter');
    };
    const signOut = async () => {
      await keys.use(page.getByRole('button', { name: /^Your account/ }));
      await keys.take('ArrowDown', page.getByRole('menuitem', { name: 'Sign out' }));
    };
    await signIn();
    await heading(page, 'Your profile').waitFor();

    await keys.use(page.getByRole('button', { name: 'Set up' }));
    const dialog = page.getByRole('dialog', { name: 'Set up two-factor authentication' });
    await keys.hasFocus(dialog.getByRole('textbox', { name: 'Your password' }));
    await keys.press('Escape');
    await keys.hasFocus(page.getByRole('button', { name: 'Set up' }));
    await keys.press('Enter');
    await keys.hasFocus(dialog.getByRole('textbox', { name: 'Your password' }));
    await keys.type(PASSWORD);
    await keys.press('Enter');
    await keys.hasFocus(code);
    await page.getByRole('img', { name: 'The secret, for the camera of the authenticator app' }).waitFor();
    const secret =
      (await page.getByLabel('Secret for the authenticator app', { exact: true }).textContent()) ?? '';
    const wrongCode = codeThatIsNot(secret);
    dashboard.allow(/status of 401/);
    const enabling: string[] = [];
    page.on('request', (request) => {
      if (request.url().endsWith('/auth/mfa/enable')) enabling.push(request.method());
    });
    await keys.type(wrongCode);
    await keys.press('Enter');
    await wrong.waitFor();
    expect(enabling, 'a wrong code counts once').to.deep.equal(['POST']);
    await keys.fill(code, codeOf(secret));
    await keys.press('Enter');
    const kept = page.getByRole('alert').filter({ hasText: 'Keep these recovery codes' });
    await keys.hasFocus(kept);
    const codes = await kept.getByLabel('Recovery codes', { exact: true }).textContent();
    const recoveryCodes = codes?.split('\n') ?? [];
    expect(recoveryCodes).to.have.length(10);
    await kept.getByRole('button', { name: 'Copy: Recovery codes' }).waitFor();
    await assertAccessible(page);

    await signOut();
    await signIn();
    await heading(page, 'Two-factor authentication').waitFor();
    await keys.hasFocus(code);
    await keys.type(wrongCode);
    await keys.press('Enter');
    await wrong.waitFor();
    await assertAccessible(page);
    // The code of this moment is used up.
    await keys.fill(code, codeOf(secret, 1));
    await keys.press('Enter');
    await heading(page, 'Your profile').waitFor();

    await signOut();
    await signIn();
    await keys.hasFocus(code);
    await keys.type(recoveryCodes[0] ?? '');
    await keys.press('Enter');
    await heading(page, 'Your profile').waitFor();
  });

  it('by an invitation, to what the role allows', async () => {
    const page = await dashboard.open('/people', { person: tenant.admin });
    await page.getByRole('button', { name: 'Invite', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: 'Invite a person' });
    await dialog.getByRole('textbox', { name: 'Name' }).fill('Vera Viewer');
    await dialog.getByRole('textbox', { name: 'E-mail address' }).fill('vera@example.com');
    await dialog.getByRole('combobox', { name: 'Role' }).click();
    await page.getByRole('option', { name: 'Organization Viewer (customer)' }).click();
    await dialog.getByRole('combobox', { name: 'Organization' }).click();
    await page.getByRole('option').first().click();
    await assertAccessible(page);
    await dialog.getByRole('button', { name: 'Send the invitation' }).click();
    await page.getByText('vera@example.com is invited').waitFor();
    const row = page.getByRole('row').filter({ hasText: 'Vera Viewer' });
    await row.getByText('Invited').waitFor();
    await assertAccessible(page);

    const mail = await mailbox.newest('vera@example.com');
    const link = /http:\/\/\S+#token=[\w-]+/.exec(mail)?.[0] ?? '';
    const theirs = await dashboard.open(link);
    await theirs.getByText(/^Vera Viewer, you are invited to Organization/).waitFor();
    expect(new URL(theirs.url()).hash).to.equal('');
    await assertAccessible(theirs);
    const password = theirs.getByRole('textbox', { name: 'Password' });
    dashboard.allow(/status of 400/);
    const keys = new Keyboard(theirs);
    await keys.fill(password, 'short');
    await keys.press('Enter');
    await theirs.locator('.mantine-PasswordInput-error').waitFor();
    await keys.fill(password, PASSWORD);
    await keys.press('Enter');
    await heading(theirs, 'Overview').waitFor();
    const rail = theirs.getByRole('navigation', { name: 'Main' });
    await rail.getByRole('link', { name: 'Devices' }).waitFor();
    for (const name of ['People', 'Audit']) {
      expect(await rail.getByRole('link', { name }).count(), name).to.equal(0);
    }
    await keys.use(rail.getByRole('link', { name: 'Enrollment' }));
    const refused = theirs.getByRole('button', { name: 'New key', disabled: true }).first();
    await keys.to(refused);
    await theirs
      .getByRole('tooltip')
      .getByText(
        'This needs the permission "agents:write", which your role "Organization Viewer" does not have.',
      )
      .waitFor();
    await theirs.goto(new URL('/people', theirs.url()).href);
    await theirs.getByRole('heading', { name: 'You may not see this' }).waitFor();
    await theirs.getByText('This needs the permission "users:read"').waitFor();
    await assertAccessible(theirs);

    await page.reload();
    await row.getByText('Active').waitFor();
  });

  it('by a link of the server, which asks before it replaces a person who is signed in', async () => {
    const { app } = dashboard;
    const { admin, technician } = tenant;
    const linkFor = async ({ id }: Person) => `/devices${await app.server.signInFragment(id)}`;
    const page = await dashboard.open(await linkFor(admin));
    await heading(page, 'Devices').waitFor();

    const { origin } = new URL(page.url());
    const open = async (link: string) => {
      // Only a change behind the # would not load the page again.
      await page.goto('about:blank');
      await page.goto(origin + link);
    };
    dashboard.allow(/status of 40[09]/);
    const account = page.getByRole('button', { name: /^Your account/ });
    const asked = page.getByText(`This browser is signed in as ${admin.email}.`);
    await open(await linkFor(technician));
    await asked.waitFor();
    await assertAccessible(page);
    await page.getByRole('button', { name: `Stay signed in as ${admin.email}` }).click();
    await heading(page, 'Devices').waitFor();
    await account.click();
    await page.getByText(admin.email).first().waitFor();

    // The code of somebody's sign-in in another browser changes nothing.
    const foreign = await linkFor(technician);
    await query(app, `update sso_exchange_codes set browser_hash = repeat('0', 64)`);
    await open(foreign);
    await heading(page, 'Devices').waitFor();
    await account.click();
    await page.getByText(admin.email).first().waitFor();

    await open(await linkFor(technician));
    await asked.waitFor();
    await page.getByRole('button', { name: `Sign in as ${technician.email}` }).click();
    await heading(page, 'Devices').waitFor();
    await account.click();
    await page.getByText(technician.email).first().waitFor();
  });

  it('by an identity provider, which is then the only one, except for who opens the emergency door', async () => {
    const { app } = dashboard;
    const { admin, partnerId } = tenant;
    const colleague = await buildPerson(app, { scope: 'partner', partnerId });
    const factor = await enableSecondFactor(app, admin);
    idp = await startOidcProvider();
    idp.accounts.set('admin', { claims: { email: admin.email, email_verified: true, name: 'Ada' } });
    idp.person = 'admin';
    const owner: Owner = { partner_id: partnerId };
    await proveDomain(app, tenant.orgId);
    await insertOidcProvider(app, idp, owner, { name: 'Acme Login' });
    const branding = { headline: 'Welcome to Acme', logoUrl: LOGO, accentColor: '#7a1f5c' };
    await app.call('PUT', '/partners/me/login-branding', { token: admin.token, body: branding });

    dashboard.allow(/a request to https:\/\/127\.0\.0\.1/);
    const page = await dashboard.open('/settings/sso', { ignoreHTTPSErrors: true });
    await heading(page, 'Welcome to Acme').waitFor();
    await page.getByRole('textbox', { name: 'E-mail address' }).waitFor();
    await assertAccessible(page);
    await page.getByRole('link', { name: 'Sign in with Acme Login' }).click();
    await heading(page, 'Single sign-on').waitFor();

    await page.getByRole('link', { name: 'Acme Login' }).click();
    const enforcement = page.getByRole('region', { name: '4. Enforce' });
    await enforcement.getByRole('combobox', { name: /^Who gets in/ }).click();
    await page.getByRole('option', { name: admin.email }).click();
    await page.keyboard.press('Escape');
    await enforcement.getByRole('switch', { name: /^Only this provider/ }).check();
    dashboard.allow(/status of 403/);
    await enforcement.getByRole('button', { name: 'Save' }).click();
    const proof = page.getByRole('dialog', { name: 'Confirm that it is you' });
    await proof.getByRole('textbox', { name: 'Code' }).fill(factor.code());
    await proof.getByRole('button', { name: 'Confirm' }).click();
    await enforcement.getByText('Saved.').waitFor();
    await assertAccessible(page);

    const password = async (opened: Page, { email }: Person) => {
      expect(await opened.getByRole('textbox', { name: 'E-mail address' }).count()).to.equal(0);
      await opened.getByRole('button', { name: 'Use a password' }).click();
      await opened.getByRole('textbox', { name: 'E-mail address' }).fill(email);
      await opened.getByRole('textbox', { name: 'Password' }).fill(PASSWORD);
      await opened.getByRole('button', { name: 'Sign in', exact: true }).click();
    };
    const theirs = await dashboard.open('/');
    await theirs.getByRole('link', { name: 'Sign in with Acme Login' }).waitFor();
    await assertAccessible(theirs);
    await password(theirs, colleague);
    await theirs.getByText('Your account requires single sign-on. Sign in with Acme Login.').waitFor();
    await theirs.getByRole('link', { name: 'Go to your single sign-on' }).waitFor();
    await assertAccessible(theirs);

    await idp.stop();
    const emergency = await dashboard.open('/');
    await emergency.getByRole('link', { name: 'Sign in with Acme Login' }).waitFor();
    await password(emergency, admin);
    await emergency.getByRole('textbox', { name: 'Code' }).fill(factor.code(1));
    await emergency.getByRole('button', { name: 'Sign in', exact: true }).click();
    await heading(emergency, 'Overview').waitFor();
  });
});

/** Six digits that the app does not show at any time of the test. */
function codeThatIsNot(secret: string): string {
  const shown = Array.from({ length: 12 }, (_, step) => codeOf(secret, step - 2));
  const wrong = Array.from({ length: 20 }, (_, number) => String(number).padStart(6, '0'));
  return wrong.find((code) => !shown.includes(code)) ?? '';
}
