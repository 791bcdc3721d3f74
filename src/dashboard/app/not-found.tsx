import { Anchor } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { Empty, Page } from '../ui/index.ts';

export function NotFound() {
  return (
    <Page title="There is no such page">
      <Empty
        title="Nothing is at this address"
        action={<Anchor renderRoot={(props) => <Link {...props} to="/" />}>Go to the overview</Anchor>}
      >
        It may be mistyped, or what it showed may have been deleted.
      </Empty>
    </Page>
  );
}
