import { expect } from 'chai';
import {
  type FirstFound,
  nextOf,
  pathOf,
  stepsOf,
} from '../../../src/dashboard/features/getting-started/steps.ts';

const NOTHING: FirstFound = {
  scope: 'system',
  providers: 0,
  organizations: [],
  sites: [],
  isInstallable: false,
  hasKey: false,
};
const ACME = { id: 'acme', name: 'Acme' };

describe('the first steps of an installation', () => {
  const next = (found: Partial<FirstFound>) => nextOf(stepsOf({ ...NOTHING, ...found }))?.title;

  it('lead from a provider to the install line, and name what is missing', () => {
    expect(next({})).to.equal('Create a provider');
    expect(next({ providers: 1 })).to.equal('Create an organization');
    const customer = { providers: 1, organizations: [ACME] };
    expect(next(customer)).to.equal('Create a site of Acme');
    const placed = { ...customer, sites: [{}] };
    expect(next(placed)).to.equal('Register a release of the agent');
    expect(next({ ...placed, isInstallable: true })).to.equal('Create an enrollment key');
    expect(next({ ...placed, isInstallable: true, hasKey: true })).to.equal(
      'Run the install line on a machine',
    );
  });

  it('are those that a person can take: a provider makes no providers, and no releases', () => {
    const ofProvider = stepsOf({ ...NOTHING, scope: 'partner' });
    expect(ofProvider[0]?.title).to.equal('Create an organization');
    const release = ofProvider.find(({ title }) => title.startsWith('Register'));
    expect(release).not.to.have.property('page');
    expect(stepsOf({ ...NOTHING, scope: 'organization', organizations: [ACME] })[0]?.title).to.contain(
      'site',
    );
    const ofOne = stepsOf({ ...NOTHING, isOfOne: true, organizations: [ACME] });
    expect(ofOne.map(({ title }) => title)).to.not.include('Create a provider');
    expect(ofOne.find(({ title }) => title.startsWith('Register'))).to.have.property('page');
  });

  it('each name their page, and what to do there', () => {
    const steps = stepsOf({ ...NOTHING, organizations: [ACME] });
    expect(steps.map(({ page }) => page && pathOf(page))).to.deep.equal([
      '/providers',
      '/organizations',
      '/organizations/acme',
      '/agents',
      '/enrollment',
      '/enrollment',
    ]);
    for (const { title, here } of steps) expect(here, title).to.match(/^[A-Z].*\.$/);
  });
});
