import { describeEveryPage } from '../../support/every-page.ts';

describeEveryPage({ isThorough: true });
