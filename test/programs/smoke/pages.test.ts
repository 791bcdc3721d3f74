import { describeEveryPage } from '../../support/every-page.ts';

/** The short form of `test/programs/dashboard/pages.test.ts`. */
describeEveryPage({ isThorough: false });
