#ifndef TFOS_CONTROL_HOST_ADDRESS_H_
#define TFOS_CONTROL_HOST_ADDRESS_H_

#include <string>

namespace tfos::control {

/// The address of this host that other hosts can most likely reach: the one of the interface with
/// the default route, else the host's name. Sends no packet and resolves no name.
std::string ReachableAddress();

/// What to tell others to connect to: `advertised` if set, else `bound` unless it stands for all
/// interfaces, else `ReachableAddress()`.
std::string AdvertisedAddress(const std::string& advertised, const std::string& bound);

}  // namespace tfos::control

#endif  // TFOS_CONTROL_HOST_ADDRESS_H_
