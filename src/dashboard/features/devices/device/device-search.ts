import { getRouteApi } from '@tanstack/react-router';

const route = getRouteApi('/signed-in/devices/$deviceId');

/** What the person has chosen on the page of a device, and how to change it. A new choice begins on the first page. */
export function useDeviceSearch() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const change = (next: Partial<typeof search>) =>
    void navigate({ search: (previous) => ({ ...previous, page: undefined, ...next }), replace: true });
  return { search, change };
}
