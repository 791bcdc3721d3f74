import { createRoute, createRouter } from '@tanstack/react-router';
import { publicPages, signedInPages } from '../features/index.ts';
import { publicRoute, rootRoute, signedInRoute } from '../routing/index.ts';
import { asError, Failure, Loading } from '../ui/index.ts';
import { NotFound } from './not-found.tsx';
import { SignedIn } from './signed-in.tsx';
import { MissingPart } from './update/missing-part.tsx';
import { isMissingPart } from './update/new-version.ts';

signedInRoute.update({ component: SignedIn });

/** An address that no page has, with the frame around what it says. */
const unknownRoute = createRoute({ getParentRoute: () => signedInRoute, path: '$', component: NotFound });

export const router = createRouter({
  routeTree: rootRoute.addChildren([
    publicRoute.addChildren(publicPages),
    signedInRoute.addChildren([...signedInPages, unknownRoute]),
  ]),
  defaultPreload: 'intent',
  defaultPendingComponent: () => <Loading />,
  defaultErrorComponent: ({ error, reset }) =>
    isMissingPart(asError(error)) ? <MissingPart /> : <Failure error={asError(error)} retry={reset} />,
  defaultNotFoundComponent: NotFound,
  scrollRestoration: true,
});

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}
