import { expect } from 'chai';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { DASHBOARD_PAGES } from '../../src/features/dashboard-pages.ts';
import { SETTINGS_PAGES } from '../../src/features/search/settings-pages.ts';
import { declaredPages } from '../support/declared-pages.ts';

const FEATURES = path.join(import.meta.dirname, '../../src/features');

/** What the server writes into mails, redirects and results of the search is a page that the dashboard has. */
describe('the pages of the dashboard that the server leads to', () => {
  const declared = declaredPages();

  it('are open to people who are not signed in, apart from the last four', () => {
    const { profile, cloudBackup, alerts, reports, ...others } = DASHBOARD_PAGES;
    expect(declared.public).to.include.members(Object.values(others));
    expect(declared.signedIn).to.include.members([profile, cloudBackup, alerts, reports]);
  });

  it('are there for those that the search finds', () => {
    expect(declared.signedIn).to.include.members(SETTINGS_PAGES.map(({ href }) => href));
  });

  it('are named in no other place', () => {
    const written = readdirSync(FEATURES, { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .flatMap((file) => {
        const text = readFileSync(path.join(FEATURES, file), 'utf8');
        return [...text.matchAll(/\$\{[^}`]*baseUrl(?:\(\))?\}\/(?!api\/)[^`]*/gi)].map(
          ([link]) => `${file}: ${link}`,
        );
      });
    expect(written).to.deep.equal([]);
  });
});
